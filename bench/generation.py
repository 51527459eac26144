"""Compares the speed of sampling: this package's loop, which drops finished sequences (compact), and `generate` (trl).

    python bench/generation.py --repeats 5

Both take turns on the same model, prompts and sampling. First a GRPO generation batch (256 completions, 16 per prompt),
then the evaluation of 512 held-out rows as in a run (sorted by length, compact) against batches of `generate` in the
order of the rows. The evaluation prompts have two, three or four numbers, so that their lengths differ.
"""

import statistics
import time
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable

from transformers import AutoModelForCausalLM, AutoTokenizer

from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.model_shape import ASSETS
from rlhf_exp.evaluation.completions import EvalSet, sample_rows
from rlhf_exp.models.generation import Sampling, sample_completions
from rlhf_exp.tasks import load_task
from rlhf_exp.tasks.tokens import encode_prompts


def compare(name: str, ours: Callable[[], int], theirs: Callable[[], int], repeats: int) -> list[float]:
    """Time both in turn; each returns how many tokens it sampled. Returns the speed-ups, sorted."""
    ratios, rates = [], []
    for i in range(repeats + 1):
        figures = []
        for run in (ours, theirs):
            start = time.perf_counter()
            tokens = run()
            figures.append((time.perf_counter() - start, tokens))
        if i:  # the first pair warms up
            ratios.append(figures[1][0] / figures[0][0])
            rates.append([tokens / seconds for seconds, tokens in figures])
    ratios.sort()
    ours_rate, theirs_rate = (statistics.median(rate) for rate in zip(*rates, strict=True))
    print(
        f"{name}: {ours_rate:,.0f} against {theirs_rate:,.0f} tokens/s; speed-up median"
        f" {statistics.median(ratios):.2f}, {ratios[0]:.2f} to {ratios[-1]:.2f}, n={repeats}",
        flush=True,
    )
    return ratios


def main() -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    model = AutoModelForCausalLM.from_pretrained(ASSETS / "tiny").eval()
    tokenizer = AutoTokenizer.from_pretrained(ASSETS / "tiny")
    rounds: Counter[str] = Counter()

    def sample(prompts: list[list[int]], max_tokens: int, method: str) -> int:
        rounds[method] += 1
        keys = [("bench", rounds[method], i) for i in range(len(prompts))]
        ends, pad_id = [tokenizer.eos_token_id], tokenizer.pad_token_id
        return sum(map(len, sample_completions(model, prompts, keys, Sampling(max_tokens), ends, pad_id, method)))

    for max_tokens in (32, 64, 96):
        cfg = compose_config(
            [f"max_tokens={max_tokens}", "eval.split=validation", "eval.rows=512", "generation=compact"]
        )
        prompts = [p for p in encode_prompts(tokenizer, load_task(cfg, tokenizer).train[:16]) for _ in range(16)]
        compare(
            f"generation batch of 256, {max_tokens} tokens",
            lambda: sample(prompts, max_tokens, "compact"),  # noqa: B023 - called within this iteration
            lambda: sample(prompts, max_tokens, "trl"),  # noqa: B023
            repeats,
        )
        cfg = compose_config(
            [f"max_tokens={max_tokens}", "task.numbers=[2,3,4]", "eval.rows=512", "generation=compact"]
        )
        of = EvalSet.of(cfg, load_task(cfg, tokenizer), tokenizer)
        held_out, size = encode_prompts(tokenizer, of.rows), cfg.eval.batch_size
        compare(
            f"evaluation of {len(held_out)} rows, {max_tokens} tokens",
            lambda: sum(len(one.ids) for one in sample_rows(of, model)),  # noqa: B023
            lambda: sum(sample(held_out[i : i + size], max_tokens, "trl") for i in range(0, len(held_out), size)),  # noqa: B023
            repeats,
        )


if __name__ == "__main__":
    main()
