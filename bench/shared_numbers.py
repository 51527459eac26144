"""Measures how much sharper a paired difference is if both models draw from the same random numbers.

    python bench/shared_numbers.py --steps 5 20 --seeds 12

The start model and the model after some steps of GRPO, on Countdown's validation rows. Row by row and seed by seed, the
trained model's completion is compared to the start model's from the same numbers, and to those from the other seeds'.
The ratio of the two variances says how many times as many completions independent numbers need for the same standard
error of the difference. Intervals are bootstraps over the rows.
"""

import tempfile
from argparse import ArgumentParser
from dataclasses import replace
from pathlib import Path

import numpy as np
from transformers import PreTrainedModel
from transformers.utils import logging

from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.trl_args import build_args
from rlhf_exp.evaluation.completions import EvalSet, sample_rows
from rlhf_exp.experiment import Experiment
from rlhf_exp.models.loading import load_policy, load_tokenizer, resolve_model
from rlhf_exp.rewards import build_rewards
from rlhf_exp.tasks import load_task
from rlhf_exp.trainers import build_trainer


def set_up(folder: str, steps: int) -> Experiment:
    cfg = compose_config(
        [f"output_dir={folder}", f"algo.args.max_steps={steps}", "algo.args.save_strategy=no", "eval.split=validation",
         "eval.rows=512", "algo.args.disable_tqdm=true"]
    )  # fmt: skip
    source = resolve_model(cfg, Path(folder))
    tokenizer = load_tokenizer(source)
    task = load_task(cfg, tokenizer)
    return Experiment(cfg, None, source, tokenizer, task, build_rewards(cfg, task), build_args(cfg))


def measure(experiment: Experiment, model: PreTrainedModel, seeds: int) -> dict[str, np.ndarray]:
    """(seeds, rows) figures of each completion, and its tokens as text."""
    cfg, task, tokenizer = experiment.cfg, experiment.task, experiment.tokenizer
    found: dict[str, list] = {"accuracy": [], "tokens": [], "completion": []}
    for seed in range(seeds):
        of = EvalSet.of(cfg, task, tokenizer)
        seeded = replace(of, draws=replace(of.draws, key=("evaluation", seed)))
        ids = [one.ids for one in sample_rows(seeded, model)]
        texts = tokenizer.batch_decode(ids, skip_special_tokens=True)
        grades = [task.grade(text, row).outcome == "correct" for text, row in zip(texts, task.eval, strict=True)]
        found["accuracy"].append(grades)
        found["tokens"].append(list(map(len, ids)))
        found["completion"].append(texts)
    return {name: np.array(values) for name, values in found.items()}


def square_differences(before: np.ndarray, after: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Per row, the mean squared deviation of after - before: of the same seed, and of two different ones."""
    before, after = before - before.mean(), after - after.mean()
    squares = (after[:, None] - before[None]) ** 2
    same = np.eye(len(before), dtype=bool)
    return squares[same].mean(0), squares[~same].mean(0)


def main() -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, nargs="+", default=[5, 20])
    parser.add_argument("--seeds", type=int, default=12)
    args = parser.parse_args()
    logging.set_verbosity_error()
    draws = np.random.default_rng(0)
    for steps in args.steps:
        with tempfile.TemporaryDirectory() as folder:
            experiment = set_up(folder, steps)
            before = measure(experiment, load_policy(experiment.model), args.seeds)
            trainer = build_trainer(experiment)
            trainer.train()
            after = measure(experiment, trainer.model, args.seeds)
        rows = before["accuracy"].shape[1]
        chosen = draws.integers(rows, size=(4000, rows))
        alike = (before["completion"] == after["completion"]).mean()
        print(f"{steps} steps of GRPO, {rows} rows, {args.seeds} seeds: {alike:.1%} of the completions are the same")
        for name in ("accuracy", "tokens"):
            shared, apart = square_differences(before[name].astype(float), after[name].astype(float))
            ratios = np.sort(apart[chosen].mean(1) / shared[chosen].mean(1))
            errors = [np.sqrt(values.mean() / rows) for values in (shared, apart)]
            print(
                f"  {name}: {before[name].mean():.3f} to {after[name].mean():.3f}; standard error of one difference"
                f" {errors[0]:.4f} with shared numbers, {errors[1]:.4f} with independent ones; variance ratio"
                f" {apart.mean() / shared.mean():.2f} [{ratios[100]:.2f}, {ratios[-101]:.2f}]",
                flush=True,
            )


if __name__ == "__main__":
    main()
