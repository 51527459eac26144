"""Names what went wrong in a run: metrics, evaluation and config in, findings with evidence and a remedy out.

    diagnose_run(load_run(folder))                  # the record that diagnosis.json holds
    diagnose(metrics, Evaluation(), config)         # rows and a config as plain dicts, as of another tool's log
    diagnosis.health, diagnosis.findings[0].name, diagnosis.findings[0].remedy

A new finding is one function in a file of rules/ (rule.py says what it returns). Imports no ML library.
"""

import math
from collections.abc import Sequence

from rlhf_exp.analysis.diagnose.advice import advise
from rlhf_exp.analysis.diagnose.calibration import Calibration, load_calibration
from rlhf_exp.analysis.diagnose.changes import list_changes
from rlhf_exp.analysis.diagnose.rule import Rule, Suspicion
from rlhf_exp.analysis.diagnose.rules import RULES
from rlhf_exp.analysis.diagnose.signals import Signals
from rlhf_exp.config.model_shape import find_shape
from rlhf_exp.runs.load import Run
from rlhf_exp.runs.records import SEVERITIES, Completion, Diagnosis, Evaluation, Finding, MetricRows, Severity, Sureness
from rlhf_exp.runs.settings import PlainConfig


def diagnose_run(run: Run, calibration: Calibration | None = None) -> Diagnosis:
    """`diagnose` of a run's folder."""
    return diagnose(run.metrics, run.evaluation, run.config, run.info.context_room, run.samples, calibration)


def diagnose(
    metrics: MetricRows,
    evaluation: Evaluation,
    config: PlainConfig,
    room: int | None = None,
    samples: Sequence[Completion] = (),
    calibration: Calibration | None = None,
) -> Diagnosis:
    """The finding of every rule whose score is above its threshold, the worst first and of these the earliest, and the
    run's health: ok, warning or error.

    Args:
        metrics: the rows of metrics.jsonl; may be empty.
        evaluation: evaluation.json; an empty one if the run did not get that far.
        config: the resolved config as plain dicts; of a foreign run at least algo.name and algo.args.
        room: tokens that the model's context leaves after the longest prompt; None if it is not known.
        samples: the rows of samples.jsonl.
        calibration: None for the one that ships with the package.
    """
    run, calibration = Signals(metrics, evaluation, config, room, samples), calibration or load_calibration()
    suspicions, parameters = _apply_rules(run), count_parameters(config)
    above = [
        _describe(rule, suspicion, calibration, parameters)
        for rule, suspicion in suspicions
        if rule.severity == "info" or calibration.is_above(rule.name, suspicion.score)
    ]
    above.sort(key=lambda finding: (SEVERITIES.index(finding.severity), (finding.steps or [math.inf])[0]))
    muted = run.setting("monitor.ignore", [])
    findings = [finding for finding in above if finding.name not in muted]
    flagging = [finding for finding in findings if finding.severity != "info"]
    remedies = {rule.name: suspicion.remedies for rule, suspicion in suspicions}
    told = _answer(run, flagging or findings, remedies)
    judged = {
        rule.name
        for rule, suspicion in suspicions
        if rule.severity == "info" or rule.name in calibration.thresholds or suspicion.score == math.inf
    }
    worst: Severity = flagging[0].severity if flagging else "info"
    return Diagnosis(
        findings=findings,
        health="ok" if worst == "info" else worst,
        checked=[rule.name for rule, _ in suspicions if rule.name in judged],
        uncalibrated=[rule.name for rule, _ in suspicions if rule.name not in judged],
        missing={
            rule.name: missing for rule in RULES if run.algo in rule.algorithms and (missing := rule.list_missing(run))
        },
        changed=list_changes(run),
        ignored=[finding.name for finding in above if finding.name in muted],
        remedies=told if flagging else [],
    )


def find_alarms(
    metrics: MetricRows,
    config: PlainConfig,
    evaluation: Evaluation,
    room: int | None = None,
    calibration: Calibration | None = None,
) -> list[Finding]:
    """The findings of a run so far that flag it: those of training series, each with its first step in `steps`. An
    alarm that is raised at some step is a finding of the whole run too.

    Args:
        metrics: rows of metrics.jsonl up to now.
        evaluation: of the start model.
    """
    findings = diagnose(metrics, evaluation, config, room, calibration=calibration).findings
    return [finding for finding in findings if finding.steps is not None and finding.severity != "info"]


def score_run(
    metrics: MetricRows, evaluation: Evaluation, config: PlainConfig, samples: Sequence[Completion] = ()
) -> dict[str, float | None]:
    """Of each rule that can flag the run's score, for a calibration; None where it does not apply."""
    suspicions = _apply_rules(Signals(metrics, evaluation, config, None, samples))
    scores = {rule.name: suspicion.score for rule, suspicion in suspicions}
    return {rule.name: scores.get(rule.name) for rule in RULES if rule.severity != "info"}


def count_parameters(config: PlainConfig) -> int | None:
    """The number of the start model's parameters; None if it is not known."""
    model = config.get("model") or {}
    if not model or model.get("parameters"):
        return model.get("parameters")
    return find_shape(model.get("path"), model.get("base"), model.get("init"), model.get("name")).parameters


def _apply_rules(run: Signals) -> list[tuple[Rule, Suspicion]]:
    return [(rule, suspicion) for rule in RULES if (suspicion := rule.apply(run)) is not None]


def _describe(rule: Rule, suspicion: Suspicion, calibration: Calibration, parameters: int | None) -> Finding:
    """A finding without a remedy yet. Its steps are the first and the last whose score flags it. One whose rule was
    never right, and that is no exact fact, is a symptom."""
    is_note, right = rule.severity == "info", calibration.right or load_calibration().right
    steps = [
        step
        for step, score in suspicion.course
        if step is not None and (is_note or calibration.is_above(rule.name, score))
    ]
    finding = Finding(
        name=rule.name,
        severity=rule.severity,
        steps=(steps[0], steps[-1]) if steps else None,
        evidence=suspicion.evidence,
        cause=suspicion.cause,
        remedy=None,
    )
    if is_note:
        finding.sureness = Sureness(text="a remark, which no score of healthy runs judges")
    else:
        finding.score = suspicion.score if suspicion.score != math.inf else None
        finding.sureness = calibration.explain(rule.name, suspicion.score, parameters)
        if finding.score is not None and not right.get(rule.name, [0])[0]:
            finding.symptom = True
            finding.sureness.text += "; such a finding never named a cause: it is a symptom, without a remedy"
    if suspicion.rows:
        finding.samples = suspicion.rows
    return finding


def _answer(run: Signals, findings: list[Finding], remedies: dict[str, list[str]]) -> list[str]:
    """Give the findings their remedies, but for symptoms, which have none, and return these."""
    chosen, answers = advise(run, [[] if finding.symptom else remedies[finding.name] for finding in findings])
    explained = []
    for finding, change in zip(findings, answers, strict=True):
        if change is None:
            continue
        finding.remedy = change.override
        if change.why and change not in explained:
            finding.cause += f"; {change.why}"
            explained.append(change)
    return [change.override for change in chosen]
