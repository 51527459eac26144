"""Searches for the best sampling baseline of the shipped model on Countdown more finely than a run (task.baselines).

    python bench/policies.py

More temperatures, greedy, and the fixed rule with more weights, each alone and never giving up: all on 256 validation
rows, without sifting. The best is then measured on the test rows, as in a run.
"""

import tempfile
from pathlib import Path

from rlhf_exp.config.compose import compose_config
from rlhf_exp.evaluation import baselines
from rlhf_exp.evaluation.completions import EvalSet
from rlhf_exp.models.generation import Policy
from rlhf_exp.models.loading import load_policy, load_tokenizer, resolve_model
from rlhf_exp.tasks import countdown_policies as policies
from rlhf_exp.tasks import load_task

TEMPERATURES = [round(0.1 * tenths, 1) for tenths in range(1, 16) if tenths != 10]


def main() -> None:
    policies.RULE_WEIGHTS = (3, 10, 30, 100, 1000, 1_000_000)
    baselines.FEW_ROWS = baselines.MOST_ROWS
    baselines.OF_EVERY_TASK = (
        *(Policy("temperature", f"{t:g}", temperature=t) for t in TEMPERATURES),
        Policy("greedy", "greedy", temperature=0.0),
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        cfg = compose_config([f"output_dir={folder}", f"eval.cache_dir={folder}/cache"])
        source = resolve_model(cfg, path)
        tokenizer = load_tokenizer(source)
        task = load_task(cfg, tokenizer)
        of = EvalSet.of(cfg, task, tokenizer)
        best = baselines.measure_baselines(cfg, of, source, load_policy(source))
    print(f"| sampling baseline | on {baselines.MOST_ROWS} validation rows |")
    print("|---|---|")
    for name, accuracy in sorted(best.tried.items(), key=lambda item: item[1], reverse=True):
        print(f"| {name} | {accuracy:.1%} |")
    cell = "{value:.1%} [{low:.1%}, {high:.1%}]".format(**best.describe(cfg.max_tokens)[best.policy.family]["accuracy"])
    print(f"\nOn the test rows {best.policy.name} has {cell}.")


if __name__ == "__main__":
    main()
