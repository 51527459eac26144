"""Names what went wrong in a run: metrics, evaluation and config in, findings with evidence and a remedy out.

    diagnose_run(load_run(folder))                  # as diagnosis.json holds it
    diagnose(metrics, evaluation, config)
    ->  {"findings": [{"name": "kl_drift", "severity": "warning", "steps": [120, 300], "evidence": "...",
                       "cause": "...", "remedy": "algo.args.beta=0.1", "score": 2.1, "sureness": {"text": ...}}],
         "health": "warning", "checked": ["kl_drift", ...], "uncalibrated": [...], "missing": {rule: [series]},
         "changed": ["..."], "ignored": ["kl_drift"],    # found, but named in monitor.ignore
         "remedies": ["algo.args.beta=0.1", ...]}        # what to try, the first alone, then all together: advice.py

A new finding is one function in a file of rules/ (rule.py says what it returns). Imports no ML library.
"""

import math
from typing import Any

from rlhf_exp.analysis.diagnose.advice import advise
from rlhf_exp.analysis.diagnose.calibration import Calibration, load_calibration
from rlhf_exp.analysis.diagnose.changes import list_changes
from rlhf_exp.analysis.diagnose.rule import SEVERITIES, Finding, Rule
from rlhf_exp.analysis.diagnose.rules import RULES
from rlhf_exp.analysis.diagnose.signals import Signals
from rlhf_exp.config.model_shape import find_shape
from rlhf_exp.runs.load import Run


def diagnose_run(run: Run, calibration: Calibration | None = None) -> dict[str, Any]:
    """`diagnose` of a run's folder."""
    evaluation, samples = list_facts(run)
    return diagnose(run.metrics, evaluation, run.config, run.info.context_room, samples, calibration)


def list_facts(run: Run) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What a run has measured, as the rules read it: evaluation.json, and samples.jsonl."""
    samples = [one.model_dump(exclude_unset=True) for one in run.samples]
    return run.evaluation.model_dump(exclude_unset=True), samples


def diagnose(
    metrics: list[dict[str, Any]],
    evaluation: dict[str, Any],
    config: dict[str, Any],
    room: int | None = None,
    samples: list[dict[str, Any]] | None = None,
    calibration: Calibration | None = None,
) -> dict[str, Any]:
    """The finding of every rule whose score is above its threshold, the worst first and of these the earliest,
    and the run's health: ok, warning or error.

    Args:
        metrics: the rows of metrics.jsonl; may be empty.
        evaluation: evaluation.json; {} if the run did not get that far.
        config: the resolved config as plain dicts; of a foreign run at least algo.name and algo.args.
        room: tokens that the model's context leaves after the longest prompt; None if it is not known.
        samples: the rows of samples.jsonl.
        calibration: None for the one that ships with the package.
    """
    run = Signals(metrics, evaluation, config, room, samples or [])
    calibration, parameters = calibration or load_calibration(), count_parameters(config)
    found = _apply_rules(run)
    above = [
        _describe(of, finding, calibration, parameters)
        for of, finding in found
        if of.severity == "info" or calibration.is_above(of.name, finding.score)
    ]
    above.sort(key=lambda finding: (SEVERITIES.index(finding["severity"]), (finding["steps"] or [math.inf])[0]))
    muted = config.get("monitor", {}).get("ignore", [])
    findings = [finding for finding in above if finding["name"] not in muted]
    accusing = [finding for finding in findings if finding["severity"] != "info"]
    proposed = {of.name: finding.remedy for of, finding in found}
    remedies = _answer(run, findings, proposed, calibration.right or load_calibration().right)
    known = {of.name for of, finding in found if of.severity == "info" or of.name in calibration.thresholds}
    exact = {of.name for of, finding in found if finding.score == float("inf")}
    return {
        "findings": findings,
        "health": accusing[0]["severity"] if accusing else "ok",
        "checked": [of.name for of, _ in found if of.name in known | exact],
        "uncalibrated": [of.name for of, _ in found if of.name not in known | exact],
        "missing": {of.name: lacking for of in RULES if of.of(run.algorithm) and (lacking := _list_missing(of, run))},
        "changed": list_changes(run),
        "ignored": [finding["name"] for finding in above if finding["name"] in muted],
        "remedies": remedies,
    }


def find_alarms(
    metrics: list[dict[str, Any]],
    config: dict[str, Any],
    evaluation: dict[str, Any] | None = None,
    room: int | None = None,
    calibration: Calibration | None = None,
) -> list[dict[str, Any]]:
    """The findings of a run so far that accuse it: those of training series, each with its first step in `steps`. An
    alarm that is raised at some step is a finding of the whole run too.

    Args:
        metrics: rows of metrics.jsonl up to now.
        evaluation: of the start model, {"baseline": ...}.
    """
    findings = diagnose(metrics, evaluation or {}, config, room, calibration=calibration)["findings"]
    return [found for found in findings if found["steps"] is not None and found["severity"] != "info"]


def score_run(
    metrics: list[dict[str, Any]],
    evaluation: dict[str, Any],
    config: dict[str, Any],
    samples: list[dict[str, Any]] | None = None,
) -> dict[str, float | None]:
    """Of each rule that can accuse the run's score, for a calibration; None where it does not apply."""
    found = {
        of.name: finding.score
        for of, finding in _apply_rules(Signals(metrics, evaluation, config, None, samples or []))
    }
    return {of.name: found.get(of.name) for of in RULES if of.severity != "info"}


def _apply_rules(run: Signals) -> list[tuple[Rule, Finding]]:
    return [(of, finding) for of in RULES if (finding := of.apply(run)) is not None]


def _list_missing(of: Rule, run: Signals) -> list[str]:
    return [need for need in of.needs if not run.has(need)]


def _describe(of: Rule, finding: Finding, calibration: Calibration, parameters: int | None) -> dict[str, Any]:
    """A finding as diagnosis.json holds it, without a remedy yet. Its steps are the first and the last whose score
    accuses."""
    dated = [(step, score) for step, score in finding.course if step is not None]
    above = [step for step, score in dated if of.severity == "info" or calibration.is_above(of.name, score)]
    described: dict[str, Any] = {
        "name": of.name,
        "severity": of.severity,
        "steps": [above[0], above[-1]] if above else None,
        "evidence": finding.evidence,
        "cause": finding.cause,
        "remedy": None,
        "sureness": {"text": "no level applies: it accuses nobody, and no score of healthy runs judges it"},
    }
    if of.severity != "info":
        described["score"] = finding.score if finding.score != float("inf") else None
        described["sureness"] = calibration.explain(of.name, finding.score, parameters)
    return described | ({"samples": finding.rows[:3]} if finding.rows else {})


def _answer(
    run: Signals, findings: list[dict[str, Any]], proposed: dict[str, list[str]], right: dict[str, list[int]]
) -> list[str]:
    """Give the findings that accuse their remedies, and return these. A finding that was never right, and is no exact
    fact, is a symptom without a remedy. Notes have theirs where nothing accuses the run.

    Args:
        right: of each rule how often it was right, and how often it was raised.
    """
    accusing = [found for found in findings if found["severity"] != "info"]
    for found in accusing:
        if found["score"] is not None and not right.get(found["name"], [0])[0]:
            found["symptom"] = True
            found["sureness"]["text"] += "; such a finding never named a cause: it is a symptom, without a remedy"
    chosen, answers = advise(run, [[] if "symptom" in x else proposed[x["name"]] for x in accusing or findings])
    for i, (found, change) in enumerate(zip(accusing or findings, answers, strict=True)):
        if change is not None:
            found["remedy"] = change.override
            found["cause"] += f"; {change.why}" if change.why and change not in answers[:i] else ""
    return [change.override for change in chosen] if accusing else []


def count_parameters(config: dict[str, Any]) -> int | None:
    """Of the start model; None if it is not known."""
    model = config.get("model") or {}
    if not model or model.get("parameters"):
        return model.get("parameters")
    return find_shape(model.get("path"), model.get("base"), model.get("init"), model.get("name")).parameters
