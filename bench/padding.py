"""Compares a GRPO step of this package, which computes no padding, with plain TRL's, in time and peak memory.

    python bench/padding.py --repeats 5
    python bench/padding.py --only default --chunk-tokens 1024 2048 4096 8192
    python bench/padding.py --only default --given model=smollm2_135m max_tokens=32 \
      algo.args.per_device_train_batch_size=16
    python bench/padding.py --only default --bfloat16 --given model=smollm2_135m ...     # both sides in it as well

`default` is the default step (the shipped model, Countdown, 96 tokens), `long` a small model with Qwen3's vocabulary
(151,936) and eight completions, one of 1,024 tokens, the others 200 on average; together that is 303, and 325 in the
three steps of `--repeats 3`. In sampling it repeats the last token until then.
Both sides take turns on the same weights and prompts. A step samples, scores with the reference, and goes forward and
backward; its passes are the step without sampling, here of the same completions on both sides. Times are the process's
own processor time, which other processes disturb less (use OMP_NUM_THREADS=1). Peak memory is what the passes add to
the process (Linux).

Products: the time of the matrix products that the passes cannot do without, alone: of every linear layer for each
token that is not padding, once in the reference and three times in training (forward, and two backward). The output
layer counts for completions only. Attention is not in it.
"""

import ctypes
import statistics
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import torch
from accelerate.state import AcceleratorState
from datasets import Dataset
from transformers import AutoModelForCausalLM, Qwen3Config
from transformers.utils import logging
from trl import GRPOTrainer

from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.trl_args import build_args
from rlhf_exp.models.generation import CACHE, roll_out
from rlhf_exp.models.loading import load_tokenizer, resolve_model
from rlhf_exp.models.untrained import build_byte_tokenizer
from rlhf_exp.rewards import build_rewards
from rlhf_exp.tasks import load_task
from rlhf_exp.trainers import trimmed
from rlhf_exp.trainers.grpo import GRPOConfig, VariantGRPOTrainer

LONGEST, MEAN_OF_OTHERS, VOCABULARY = 1024, 200, 151_936
"""A step of experiment=countdown_qwen3 has 64 completions of up to 1,024 tokens; here one of eight is as long."""
BLOCK = 2048
"""Tokens in one matrix product of `time_products`."""

Sides = dict[str, GRPOTrainer]


def build_default(
    folder: Path, given: list[str], bfloat16: bool = False
) -> tuple[Sides, list[dict[str, Any]], Callable[[int], dict[str, Any]]]:
    """Both trainers of the default step, its rows, and rollouts by number: what the start model samples."""
    sides: Sides = {}
    for in_bf16 in (False, True) if bfloat16 else (False,):
        precision = [f"device.bf16={str(in_bf16).lower()}", *given]
        cfg = compose_config(["device=cpu", f"output_dir={folder}", "algo.args.save_strategy=no", *precision])
        source = resolve_model(cfg, folder)
        tokenizer = load_tokenizer(source)
        task = load_task(cfg, tokenizer)
        AcceleratorState._reset_state(True)  # it keeps the first precision of a process
        built = build_sides(source.path, build_args(cfg), task.train, build_rewards(cfg, task), tokenizer)
        sides |= {f"{name}{' in bfloat16' * in_bf16}": side for name, side in built.items()}
    args = sides["ours"].args
    rows = [task.train[i // args.num_generations] for i in range(args.generation_batch_size)]

    def sample(number: int) -> dict[str, Any]:
        for side in sides.values():
            side.row_keys = [("bench", number, i) for i in range(len(rows))]
        return roll_out([row["prompt"] for row in rows], sides["ours"])

    return sides, rows, sample


def build_long(folder: Path) -> tuple[Sides, list[dict[str, Any]], Callable[[int], dict[str, Any]]]:
    """The same of 8 completions in two minibatches, whose lengths are exponential, and cut at LONGEST."""
    tokenizer = build_byte_tokenizer()
    shape = Qwen3Config(
        vocab_size=VOCABULARY, hidden_size=64, intermediate_size=192, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, max_position_embeddings=4096, tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id, eos_token_id=tokenizer.eos_token_id, bos_token_id=None,
    )  # fmt: skip
    AutoModelForCausalLM.from_config(shape).save_pretrained(folder / "long")
    tokenizer.save_pretrained(folder / "long")
    args = GRPOConfig(
        output_dir=str(folder), use_cpu=True, bf16=False, max_completion_length=LONGEST, num_generations=4, beta=0.05,
        per_device_train_batch_size=4, gradient_accumulation_steps=2, activation_checkpointing=False,
        disable_dropout=True, report_to=[], disable_tqdm=True, hybrid_alpha=None, advantage_clip=None,
        loss_constant=None, curriculum_budgets=[], curriculum_from_steps=[],
    )  # fmt: skip
    rows = [{"prompt": "p" * (80 if i < 4 else 100) + letter} for i, letter in enumerate("abcdefgh")]
    sides = build_sides(str(folder / "long"), args, rows, [score_length], tokenizer)
    lengths: dict[int, int] = {}  # by the last token of a prompt
    prompts = [tokenizer(row["prompt"])["input_ids"] for row in rows]
    for trainer in sides.values():
        trainer.model.register_forward_hook(repeat_last(lengths, tokenizer.eos_token_id), with_kwargs=True)

    def draw(number: int) -> dict[str, Any]:
        random = Random(number)
        for prompt in prompts[:-1]:
            lengths[prompt[-1]] = min(LONGEST, 2 + int(random.expovariate(1 / MEAN_OF_OTHERS)))
        lengths[prompts[-1][-1]] = LONGEST
        ids = [[prompt[-1]] * (lengths[prompt[-1]] - 1) + [tokenizer.eos_token_id] for prompt in prompts]
        return {"prompt_ids": prompts, "completion_ids": ids, "logprobs": None}

    return sides, rows, draw


def repeat_last(lengths: dict[int, int], eos: int) -> Callable[..., Any]:
    """A hook of a model that, as it decodes with a cache, makes each row repeat its last token, and end after as many
    tokens as `lengths` says of that token."""
    step = 0

    def force(model: torch.nn.Module, args: Any, kwargs: dict[str, Any], output: Any) -> Any:
        nonlocal step
        if kwargs.get(CACHE) is None:
            return output
        tokens = kwargs["input_ids"]
        step = step + 1 if tokens.shape[1] == 1 else 0
        chosen = [eos if step + 1 >= lengths.get(token, 1) else token for token in tokens[:, -1].tolist()]
        output.logits[torch.arange(len(chosen)), -1, chosen] += 1e4
        return output

    return force


def build_sides(path: str, args: GRPOConfig, rows: list[dict], rewards: list, tokenizer: Any) -> Sides:
    common = {
        "model": path, "args": args, "train_dataset": Dataset.from_list(rows), "reward_funcs": rewards,
        "processing_class": tokenizer,
    }  # fmt: skip
    sides = {"trl": GRPOTrainer(**common), "ours": VariantGRPOTrainer(**common)}
    for trainer in sides.values():
        trainer.model = trainer.model_wrapped = trainer.accelerator.prepare_model(trainer.model)
        trainer.model.train()
        trainer.current_gradient_accumulation_steps = args.gradient_accumulation_steps
    return sides


def score_length(completion_ids: list[list[int]], **columns: Any) -> list[float]:
    return [float(len(ids) % 7) for ids in completion_ids]


def take_step(trainer: GRPOTrainer, rows: list[dict[str, Any]], rollout_func: Any) -> tuple[float, float]:
    """Seconds of one rollout and of all its minibatches, without the optimizer; and the peak memory in MB above what
    was resident before."""
    trainer.rollout_func, trainer._step, trainer._buffered_inputs = rollout_func, 0, None
    trainer.model.zero_grad()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before, start = read_memory("VmRSS"), time.process_time()
    for _ in range(trainer.args.steps_per_generation):
        trainer.training_step(trainer.model, rows, None)
    return time.process_time() - start, read_memory("VmHWM") - before


def read_memory(name: str) -> float:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) * 1024 / 1e6


@torch.no_grad()
def time_products(model: torch.nn.Module, rollout: dict[str, Any]) -> float:
    """Seconds of the matrix products of the passes over a rollout."""
    completion_tokens = sum(map(len, rollout["completion_ids"]))
    tokens = completion_tokens + sum(map(len, rollout["prompt_ids"]))
    seconds = 0.0
    for layer in (module for module in model.modules() if isinstance(module, torch.nn.Linear)):
        n = completion_tokens if layer is model.get_output_embeddings() else tokens
        weight = layer.weight
        for size in [BLOCK] * (n // BLOCK) + [n % BLOCK]:
            inputs, gradients = torch.randn(size, weight.shape[1]), torch.randn(size, weight.shape[0])
            start = time.process_time()
            inputs @ weight.T, inputs @ weight.T, gradients @ weight, gradients.T @ inputs
            seconds += time.process_time() - start
    return seconds


def compare(name: str, build: Any, options: Any) -> None:
    """Print the ratios ours / TRL of one setting."""
    with tempfile.TemporaryDirectory() as folder:
        sides, rows, draw = build(Path(folder))
    found: dict[str, list[tuple[float, float]]] = {}
    products = []
    lengths: list[int] = []
    for number in range(-1, options.repeats):
        rollout = draw(max(number, 0))
        kinds = {side: (side, 0) for side in sides if "trl" in side}
        kinds |= {f"{side}, {n}": (side, n) for side in sides if "ours" in side for n in options.chunk_tokens}
        for kind, (side, tokens) in kinds.items():
            trimmed.CHUNK_TOKENS = tokens
            given = lambda prompts, trainer: rollout  # noqa: E731, B023 - called within this iteration
            taken = take_step(sides[side], rows, given)
            if number >= 0:  # the first turn warms up
                found.setdefault(kind, []).append(taken)
            own = take_step(sides[side], rows, roll_out if "ours" in side else None)
            if number >= 0:
                found.setdefault(f"{kind}, with sampling", []).append(own)
        products.append(time_products(sides["trl"].model, rollout))
        lengths += [len(ids) for ids in rollout["completion_ids"]] if number >= 0 else []
    prompts = sides["trl"]._tokenize_prompts([row["prompt"] for row in rows])[0]
    print(
        f"{name}: {len(rows)} completions a step, mean {statistics.mean(lengths):.0f}, longest {max(lengths)} tokens,"
        f" prompts of {statistics.mean(map(len, prompts)):.0f}"
    )
    for kind, taken in found.items():
        base = found["trl, with sampling" if "sampling" in kind else "trl"]
        times, memory = ([ours[i] / trls[i] for ours, trls in zip(taken, base, strict=True)] for i in (0, 1))
        seconds = statistics.median(each[0] for each in taken)
        more = f", {seconds / statistics.median(products):.1f} of products" if "sampling" not in kind else ""
        print(
            f"  {kind}: {seconds:.2f} s, ratio {spread(times)}; {statistics.median(e[1] for e in taken):.0f} MB,"
            f" ratio {spread(memory)}{more}", flush=True,
        )  # fmt: skip


def spread(ratios: list[float]) -> str:
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def main() -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", choices=["default", "long"])
    parser.add_argument("--bfloat16", action="store_true", help="of the default step, beside float32")
    parser.add_argument("--given", nargs="*", default=[], help="overrides of the default step")
    parser.add_argument("--chunk-tokens", type=int, nargs="*", default=[trimmed.CHUNK_TOKENS])
    options = parser.parse_args()
    logging.set_verbosity_error()
    for name, build in (
        ("default", partial(build_default, given=options.given, bfloat16=options.bfloat16)),
        ("long", build_long),
    ):
        if options.only in (None, name):
            compare(name, build, options)


if __name__ == "__main__":
    main()
