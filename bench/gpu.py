"""What runs on a GPU, without a network: models with random weights in the shapes of Qwen's, at the studies' settings.

    python bench/gpu.py --data DIR                     # DIR: gsm8k/, hh-rlhf/, tokenizers/qwen2 and qwen3
    python bench/gpu.py --data DIR --only grpo_trl,grpo_compact --steps 10 --at-once 1
    python bench/gpu.py --data DIR --checks sampling,attention,chunks,qlora --only ""
    python bench/gpu.py --data DIR --cpu               # the same on a CPU with models of two layers: does it run?

Runs: the exit status, the seconds, the median step, the peak of each phase on the GPU, the first and the last loss.
Several at once disturb each other's time, not their peaks; what a dry run estimates, `dry_run=true` says. Checks
compute the same in two ways, one after the other. `tiny_*`: the engines of several processes, by NCCL, in one.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import torch
from generation import compare
from torch.nn.functional import cross_entropy
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from trl.trainer.utils import selective_log_softmax

from rlhf_exp.__main__ import main as run_command
from rlhf_exp.config.model_shape import KNOWN
from rlhf_exp.config.rules import machine
from rlhf_exp.errors import ConfigError
from rlhf_exp.models.generation import Sampling, sample_completions
from rlhf_exp.models.patches import patch_model
from rlhf_exp.runs.load import load_run
from rlhf_exp.trainers.trimmed import score_trimmed

SHAPES = {"qwen3": "Qwen/Qwen3-1.7B", "qwen2": "Qwen/Qwen2.5-3B"}
SHORT = ["eval.rows=8", "eval.cache_dir=null", "algo.args.save_strategy=no", "monitor.every_steps=100",
         "algo.args.logging_steps=1"]  # fmt: skip
COUNTDOWN = ["experiment=countdown_qwen3", "hardware=gpu_80gb", "task.source=generated", "model.path={qwen3}"]
GSM8K = ["task.source=file", "task.path={data}/gsm8k", "task.train_rows=512"]
QWEN3 = ["model=qwen3_1_7b", "model.path={qwen3}", "hardware=gpu_80gb"]
SFT = ["algo=sft", "task=gsm8k", "max_tokens=32", *GSM8K, *QWEN3]
BF16 = [*SFT, "model.dtype=bfloat16"]
STUDY = [*GSM8K, "hardware=gpu_80gb", "model.path={qwen2}"]
TINY = ["algo=sft", "task=countdown", "algo.args.per_device_train_batch_size=32", "max_tokens=48"]
DEFAULT = ["algo=grpo", "task=countdown", "task.baselines=false", "eval.start_completions=1"]

RUNS = {
    "default": DEFAULT,
    "grpo_trl": [*COUNTDOWN, "generation=trl"],
    "grpo_compact": [*COUNTDOWN, "generation=compact"],
    "ppo_shared": ["algo=ppo", "task=countdown", *QWEN3, "task.source=generated", "max_tokens=256"],
    "sft": SFT,
    "dpo": ["algo=dpo", "task=hh_rlhf", "task.source=file", "task.path={data}/hh-rlhf", "task.subsets=[harmless-base]",
            "task.train_rows=256", "max_tokens=32", *QWEN3],
    "gsm8k_grpo": ["experiment=gsm8k_grpo", *STUDY],
    "gsm8k_ppo": ["experiment=gsm8k_ppo", *STUDY],
    "sft_sdpa": [*BF16, "model.attn_implementation=sdpa"],
    "sft_flash": [*BF16, "model.attn_implementation=flash_attention_2"],
    "sft_flash_unpadded": [*BF16, "model.attn_implementation=flash_attention_2", "+algo.args.padding_free=true",
                           "algo.args.max_length=null"],
    "sft_tf32": [*SFT, "+algo.args.tf32=true", "device.bf16=false"],
    "sft_float32": [*SFT, "device.bf16=false"],
    "sft_compile": [*SFT, "+algo.args.torch_compile=true"],
    "tiny_one": TINY,
    "tiny_ddp": [*TINY, "scale=ddp"],
    "tiny_fsdp2": [*TINY, "scale=fsdp2"],
    "grpo_one": [*DEFAULT, "generation=compact"],
    "grpo_fsdp2": [*DEFAULT, "scale=fsdp2"],
}  # fmt: skip
WHOLE = ("default",)
"""Runs with the settings that they have, not shortened."""
PADDED, BUDGET = 90, 256
"""Tokens of a prompt and of the longest completion in the checks."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("/tmp/rlhf_exp_gpu"))
    parser.add_argument("--only", help="runs, by commas")
    parser.add_argument("--checks", default="", help="of sampling, attention, chunks, qlora, by commas")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=600, help="seconds of a run")
    parser.add_argument("--cpu", action="store_true", help="small models on a CPU")
    given = parser.parse_args()
    models = {name: given.out / name for name in SHAPES}
    for name, folder in models.items():
        write_model(name, folder, given.data, given.cpu)
    places = {name: str(folder.resolve()) for name, folder in models.items()} | {"data": str(given.data.resolve())}
    names = list(RUNS) if given.only is None else [name for name in given.only.split(",") if name]
    with ThreadPoolExecutor(given.at_once) as pool:
        list(pool.map(partial(try_run, given=given, places=places), names))
    for name in filter(None, given.checks.split(",")):
        began = time.perf_counter()
        try:
            lines = CHECKS[name](models, "cpu" if given.cpu else "cuda")
        except Exception as error:
            lines = [f"FAILED {type(error).__name__}: {error}"]
        print(*(f"{name}: {line}" for line in lines), f"({time.perf_counter() - began:.0f} s)", sep="\n", flush=True)


def write_model(name: str, folder: Path, data: Path, small: bool) -> None:
    """A model with random weights in bfloat16, and the real tokenizer."""
    if (folder / "config.json").is_file():
        return
    shape = {key: value for key, value in json.loads(KNOWN.read_text())[SHAPES[name]].items() if key != "parameters"}
    if small:
        shape |= {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
                  "num_key_value_heads": 2}  # fmt: skip
        shape |= {"head_dim": 16} if "head_dim" in shape else {}
    tokenizer = AutoTokenizer.from_pretrained(data / "tokenizers" / name)
    config = AutoConfig.for_model(**shape, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id)
    torch.manual_seed(0)
    with torch.device("cpu" if small else "cuda"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def try_run(name: str, given: argparse.Namespace, places: dict[str, str]) -> None:
    """Run it, and print its line."""
    folder, overrides = given.out / "runs" / name, [text.format(**places) for text in RUNS[name]]
    if given.cpu:
        small = [
            "max_tokens=4",
            "algo.args.per_device_train_batch_size=8",
            "eval.rows=8",
            "algo.args.gradient_accumulation_steps=1",
        ]
        overrides = [text for text in overrides if not text.startswith(("hardware=", "max_tokens="))] + small
    engine = next((text for text in overrides if text.startswith("scale=")), None)
    several = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "1", __file__]
    launcher = several if engine else ["-m", "rlhf_exp"]
    short = [] if name in WHOLE else [*SHORT, f"algo.args.max_steps={given.steps}"]
    overrides += [*short, f"output_dir={folder}", f"device={'cpu' if given.cpu else 'cuda'}"]
    log, began, status = folder.with_suffix(".log"), time.perf_counter(), 0
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as file:
        command = [sys.executable, *launcher, *overrides]
        try:
            status = subprocess.run(command, stdout=file, stderr=file, check=False, timeout=given.timeout).returncode
        except subprocess.TimeoutExpired:
            status = -1
    said = f"{name:20} status {status:2} {time.perf_counter() - began:4.0f} s"
    try:
        run = load_run(folder)
        steps, losses = ([row[key] for row in run.metrics if key in row] for key in ("step_time", "loss"))
        peaks = {phase: round(size / 1e3, 2) for phase, size in run.info.phase_memory_mb.items()}
        said += f", train {run.info.seconds.get('train', 0):.1f} s"
        said += f", step {statistics.median(steps):.2f} s" if steps else ""
        said += f", peaks {peaks} GB, loss {losses[0]:.6f} to {losses[-1]:.6f}"
        said += f", norm {next(row['grad_norm'] for row in run.metrics if 'grad_norm' in row):.6f}"
    except (ConfigError, KeyError, IndexError, StopIteration) as error:
        said += f", {type(error).__name__} {error}"
    shutil.rmtree(folder / "model", ignore_errors=True)  # 7 GB each
    if status:
        said += "\n    " + "\n    ".join(line[:300] for line in log.read_text().splitlines()[-12:])
    print(said, flush=True)


def timed(work: Callable[[], Any], repeats: int = 3) -> float:
    """The median of seconds, after one that warms up."""
    seconds = []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds[1:])


def check_sampling(models: dict[str, Path], device: str) -> list[str]:
    """compact against trl, in turns: the shipped model, and Qwen3's shape with rows that all use the budget."""
    found, budget = [], 64 if device == "cuda" else 2
    for name, folder, rows, most in (("tiny", KNOWN.parent / "tiny", 256, 96), ("qwen3", models["qwen3"], 64, budget)):
        dtype = torch.float32 if name == "tiny" else torch.bfloat16
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).to(device).eval()
        tokenizer = AutoTokenizer.from_pretrained(folder)
        texts = [f"use {i % 9 + 2} {i % 7 + 3} {i % 5 + 4} make {i % 60 + 10}" for i in range(rows)]
        given = tokenizer(texts)["input_ids"], [("bench", i) for i in range(rows)], Sampling(most)
        sample = partial(sample_completions, model, *given, [tokenizer.eos_token_id], tokenizer.pad_token_id)
        sampled: dict[str, list[list[int]]] = {}

        def count(method: str) -> int:
            sampled[method] = sample(method)  # noqa: B023
            return sum(map(len, sampled[method]))  # noqa: B023

        compare(f"{name}, {rows} x {most}", partial(count, "compact"), partial(count, "trl"), repeats=3)
        same = sum(a == b for a, b in zip(sampled["compact"], sampled["trl"], strict=True))
        found.append(f"{name}, {rows} x {most}: {same} completions are the same")
    return found


def make_rows(rows: int, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and mask of prompts padded on the left and completions on the right; lengths exponential, cut."""
    random, width = Random(0), PADDED + BUDGET
    ids = torch.randint(0, 150_000, (rows, width), generator=torch.Generator().manual_seed(0))
    mask = torch.zeros(rows, width, dtype=torch.long)
    for row in mask:
        row[PADDED - random.randint(60, PADDED) : PADDED + max(1, min(BUDGET, int(random.expovariate(1 / 100))))] = 1
    return ids.to(device), mask.to(device)


def score(model: Any, ids: torch.Tensor, mask: torch.Tensor, width: int) -> tuple[torch.Tensor]:
    """Log-probabilities of the last `width` tokens."""
    logits = model(input_ids=ids, attention_mask=mask, logits_to_keep=width + 1, use_cache=False).logits[:, :-1]
    return (selective_log_softmax(logits, ids[:, -width:]),)


def check_chunks(models: dict[str, Path], device: str) -> list[str]:
    """Forward and backward of 16 rows, trimmed in chunks of so many, against TRL's whole padded pass."""
    model = AutoModelForCausalLM.from_pretrained(models["qwen3"], dtype=torch.bfloat16).to(device)
    ids, mask = make_rows(16 if device == "cuda" else 2, device)

    def learn(rows: int | None) -> float:
        of = partial(score, model)
        figures = of(ids, mask, BUDGET) if rows is None else score_trimmed(of, ids, mask, BUDGET, rows)
        loss = (figures[0] * mask[:, -BUDGET:]).sum() / mask[:, -BUDGET:].sum()
        loss.backward()
        model.zero_grad(set_to_none=True)
        return loss.item()

    whole = timed(partial(learn, None))
    found = [f"whole {whole * 1e3:.0f} ms, loss {learn(None):.4f}, {mask.sum().item()} of {mask.numel()} tokens"]
    for rows in (1, 4, 16) if device == "cuda" else (1,):
        found.append(f"{rows} rows: {timed(partial(learn, rows)) * 1e3:.0f} ms, loss {learn(rows):.4f}")
    return found


def check_attention(models: dict[str, Path], device: str) -> list[str]:
    """Forward and backward of 32 rows: sdpa padded, flash attention padded, flash attention without padding."""
    found, (ids, mask) = [], make_rows(32 if device == "cuda" else 2, device)
    real, lengths = mask.bool(), mask.sum(1).tolist()
    flat, places = ids[real][None], torch.cat([torch.arange(n, device=device) for n in lengths])[None]
    within = places[0, 1:] > 0  # a row's first token is not the next one of the row before it

    def learn(model: Any, padded: bool) -> tuple[float, float]:
        if padded:
            given = {"attention_mask": mask, "position_ids": (mask.cumsum(1) - 1).clamp(min=0)}
            logits = model(input_ids=ids, **given, use_cache=False).logits[:, :-1]
            losses = cross_entropy(logits.float().transpose(1, 2), ids[:, 1:], reduction="none")
            loss = (losses * (mask[:, 1:] * mask[:, :-1])).sum() / within.sum()
        else:
            logits = model(input_ids=flat, position_ids=places, use_cache=False).logits[0, :-1]
            loss = cross_entropy(logits.float(), flat[0, 1:], reduction="none")[within].mean()
        loss.backward()
        norm = torch.stack([p.grad.float().norm() for p in model.parameters() if p.grad is not None]).norm()
        model.zero_grad(set_to_none=True)
        return loss.item(), norm.item()

    for kind, padded in (("sdpa", True), ("flash_attention_2", True), ("flash_attention_2", False)):
        given = {"dtype": torch.bfloat16, "attn_implementation": kind}
        try:
            model = AutoModelForCausalLM.from_pretrained(models["qwen3"], **given).to(device)
        except (ImportError, ValueError) as error:
            found.append(f"{kind}: {str(error).splitlines()[0]}")
            continue
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        seconds, (loss, norm) = timed(partial(learn, model, padded)), learn(model, padded)
        peak = torch.cuda.max_memory_allocated() / 1e9 if device == "cuda" else 0
        said = f"{seconds * 1e3:.0f} ms, loss {loss:.5f}, norm {norm:.4f}, peak {peak:.2f} GB"
        found.append(f"{kind}, {'padded' if padded else 'without padding'}: {said}")
        del model
    return found


def check_qlora(models: dict[str, Path], device: str) -> list[str]:
    """The gradients of an adapter on 4-bit weights, before an evaluation and after it."""
    from peft import LoraConfig, get_peft_model
    from transformers import BitsAndBytesConfig

    four = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16)
    model = AutoModelForCausalLM.from_pretrained(models["qwen2"], quantization_config=four, device_map={"": device})
    patch_model(model)
    model = get_peft_model(model, LoraConfig(r=8, lora_alpha=16, target_modules="all-linear"))
    ids, mask = make_rows(4 if device == "cuda" else 1, device)

    def gradients() -> torch.Tensor:
        model.train()
        score(model, ids, mask, BUDGET)[0].mean().backward()
        found = torch.cat([p.grad.flatten().float() for p in model.parameters() if p.grad is not None])
        model.zero_grad(set_to_none=True)
        return found

    before, again = gradients(), gradients()
    model.eval()
    with torch.no_grad():
        score(model, ids, mask, BUDGET)
        model.generate(ids[:1, :8], max_new_tokens=4, do_sample=False)
    after = gradients()
    most, noise = ((x - before).abs().max().item() for x in (after, again))
    said = f"after an evaluation {most:.3g} apart, without one {noise:.3g}"
    return [f"{len(before)} gradients, norm {before.norm():.4g}: {said}"]


CHECKS = {"sampling": check_sampling, "chunks": check_chunks, "attention": check_attention, "qlora": check_qlora}

if __name__ == "__main__":
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        main()
    else:  # the engines of several processes, in one: on one GPU they cannot be several
        machine.count_processes = lambda cfg: 2  # type: ignore[assignment]
        sys.exit(run_command())
