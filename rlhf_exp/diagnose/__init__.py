"""Names what went wrong in a run: metrics, evaluation and config in, findings with evidence and a remedy out.

    diagnose(metrics, evaluation, config)
    ->  {"findings": [{"name": "kl_drift", "severity": "warning", "steps": [120, 300], "evidence": "...",
                       "cause": "...", "remedy": "algo.args.beta=0.1"}], "health": "warning"}

A new finding is one function in rules.py. Imports no ML library.
"""

from typing import Any

from rlhf_exp.config.checks import choose_remedy
from rlhf_exp.diagnose.rules import RULES
from rlhf_exp.diagnose.signals import Signals

SEVERITIES = ("error", "warning", "info")


def diagnose(
    metrics: list[dict[str, Any]], evaluation: dict[str, Any], config: dict[str, Any], room: int | None = None
) -> dict[str, Any]:
    """The finding of every rule that applies, worst first, and the run's health: ok, warning or error.

    Args:
        metrics: the rows of metrics.jsonl; may be empty.
        evaluation: evaluation.json; {} if the run did not get that far.
        config: the resolved config as plain dicts.
        room: tokens that the model's context leaves after the longest prompt; None if it is not known.
    """
    run = Signals(metrics, evaluation, config, room)
    findings = [
        {"name": find.__name__, "severity": severity, **found._asdict(), "remedy": choose_remedy(config, found.remedy)}
        for severity, find in sorted(RULES, key=lambda rule: SEVERITIES.index(rule[0]))
        if (found := find(run)) is not None
    ]
    worst = findings[0]["severity"] if findings else "ok"
    return {"findings": findings, "health": "ok" if worst == "info" else worst}
