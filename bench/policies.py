"""Searches for the best trivial policy of the shipped model on Countdown more finely than a run does (task.baselines).

    python bench/policies.py

Temperatures, greedy, every fixed weighting of + - * / by a quarter, 1 and 4 up to scale, and the fixed rule with more
weights: each alone and with the word forbidden whose absence helps most, on 256 validation rows. The best of each
family is then measured on the test rows, as in a run.
"""

import tempfile
from itertools import product
from pathlib import Path

from rlhf_exp.config.compose import compose_config
from rlhf_exp.evaluation import trivial
from rlhf_exp.experiment import Experiment
from rlhf_exp.models.loading import load_policy, load_tokenizer, resolve_model
from rlhf_exp.models.policies import Policy
from rlhf_exp.runs.folder import RunFolder
from rlhf_exp.tasks import countdown_policies as policies
from rlhf_exp.tasks import load_task

FACTORS = (0.25, 1, 4)
TEMPERATURES = [round(0.1 * tenths, 1) for tenths in range(1, 16) if tenths != 10]


def main() -> None:
    ratios = {tuple(weight / max(weights) for weight in weights) for weights in product(FACTORS, repeat=4)}
    policies.WEIGHTS = tuple(sorted(ratios - {(1, 1, 1, 1)}))
    policies.RULE_WEIGHTS = (3, 10, 30, 100, 1000, 1_000_000)
    trivial.OF_EVERY_TASK = (
        *(Policy("temperature", f"{t:g}", temperature=t) for t in TEMPERATURES),
        Policy("greedy", "greedy", temperature=0.0),
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        cfg = compose_config([f"output_dir={folder}", f"eval.cache_dir={folder}/cache"])
        source = resolve_model(cfg, path)
        tokenizer = load_tokenizer(source)
        task = load_task(cfg, tokenizer)
        experiment = Experiment(cfg, RunFolder(path, {}), source, tokenizer, task, [])
        found = trivial.measure_policies(experiment, load_policy(source))
    print(f"{sum(len(best.tried) for best in found.values())} policies tried on {trivial.VALIDATION_ROWS} rows")
    print("| family | tried | best on validation rows | there | on test rows |")
    print("|---|---|---|---|---|")
    for family, best in found.items():
        accuracy = best.figures["accuracy"]
        cell = "{value:.1%} [{low:.1%}, {high:.1%}]".format(**accuracy)
        print(f"| {family} | {len(best.tried)} | {best.name} | {best.tried[best.name]:.1%} | {cell} |")


if __name__ == "__main__":
    main()
