"""Measures which parts of a GRPO step take how much time, for each way of sampling.

    python bench/step_profile.py --steps 8

Times the calls of TRL's methods: generation, scoring (rewards, and the log-probabilities of the reference), the
forward and the backward pass of the loss. The rest is the optimizer, data and logging.
"""

import statistics
import tempfile
import time
from argparse import ArgumentParser
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformers.utils import logging

from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.trl_args import build_args
from rlhf_exp.experiment import Experiment
from rlhf_exp.models.loading import load_tokenizer, resolve_model
from rlhf_exp.rewards import build_rewards
from rlhf_exp.tasks import load_task
from rlhf_exp.trainers import build_trainer


def profile(overrides: list[str], steps: int) -> dict[str, float]:
    """Median seconds of each part of a step."""
    with tempfile.TemporaryDirectory() as folder:
        cfg = compose_config(
            [*overrides, f"output_dir={folder}", f"algo.args.max_steps={steps}", "algo.args.save_strategy=no",
             "algo.args.disable_tqdm=true"]
        )  # fmt: skip
        source = resolve_model(cfg, Path(folder))
        tokenizer = load_tokenizer(source)
        task = load_task(cfg, tokenizer)
        experiment = Experiment(cfg, None, source, tokenizer, task, build_rewards(cfg, task), build_args(cfg))
        trainer = build_trainer(experiment)
        seconds: dict[str, list[float]] = defaultdict(list)

        def time_calls(owner: Any, method: str) -> None:
            inner: Callable = getattr(owner, method)

            def timed(*args: Any, **kwargs: Any) -> Any:
                start = time.perf_counter()
                try:
                    return inner(*args, **kwargs)
                finally:
                    seconds[method].append(time.perf_counter() - start)

            setattr(owner, method, timed)

        for method in ("_generate", "_generate_and_score_completions", "compute_loss", "training_step"):
            time_calls(trainer, method)
        time_calls(trainer.accelerator, "backward")
        start = time.perf_counter()
        trainer.train()
        whole = (time.perf_counter() - start) / steps
    typical = {name: statistics.median(values[1:]) for name, values in seconds.items()}
    parts = {
        "generation": typical["_generate"],
        "scoring": typical["_generate_and_score_completions"] - typical["_generate"],
        "forward": typical["compute_loss"],
        "backward": typical["backward"],
    }
    return {**parts, "rest": max(0.0, whole - sum(parts.values())), "step": whole}


def main() -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("overrides", nargs="*")
    options = parser.parse_args()
    logging.set_verbosity_error()
    for method in ("trl", "compact"):
        parts = profile([f"generation={method}", *options.overrides], options.steps)
        shares = ", ".join(f"{name} {100 * parts[name] / parts['step']:.0f}%" for name in parts if name != "step")
        print(f"generation={method}: {parts['step']:.3f} s a step: {shares}", flush=True)


if __name__ == "__main__":
    main()
