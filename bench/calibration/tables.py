"""Computes thresholds and tables again from the archive alone, in seconds: `make calibrate`.

    python bench/calibration/tables.py  # rlhf_exp/assets/calibration.json.gz, the tables of docs/appendix/diagnosis.md

The page has what a reader needs to judge the rules; the terminal has every table.

A false alarm is counted by cross-fitting: each healthy run is judged by thresholds from the runs of the other settings.
A failure is judged by the thresholds from all healthy runs. Intervals are exact (Clopper-Pearson, 95%).
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from archive import KINDS, OTHERS, REAL, Archived, read_archive
from onset import list_onsets
from others import MEANT as MEANT_OTHERS
from public import PUBLIC, flag
from real import MEANT as MEANT_REAL
from scipy.stats import beta
from settings import CHECKS, DEVELOPED, GAINED_NOTHING, HERE, MEANT, SEVERAL_FAULTS

from rlhf_exp.analysis.diagnose import diagnose, score_run
from rlhf_exp.analysis.diagnose.calibration import Calibration, Scores, find_thresholds, save_calibration
from rlhf_exp.runs.records import Finding

STILL = "policy_stands_still"
PAGE = Path(__file__).parent.parent.parent / "docs" / "appendix" / "diagnosis.md"
BEGIN, END = "<!-- tables: begin (make calibrate) -->", "<!-- tables: end -->"


def main() -> None:
    runs = {kind: read_archive(kind) for kind in (*KINDS, *OTHERS, *REAL)}
    calibration, verdicts, fresh = calibrate(runs)
    save_calibration(calibration)
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    parts = list_parts(runs, calibration, verdicts, fresh)
    text = "\n\n".join(page for page, _ in parts if page)
    PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    print("\n\n".join(text for part in parts for text in part if text))


def list_parts(
    runs: dict[str, list[Archived]], calibration: Calibration, verdicts: list[dict[str, Any]], fresh: list[set[str]]
) -> list[tuple[str, str]]:
    """What the page says of each subject, and what only the terminal does."""
    crossed = cross_fit(calibration)
    return [
        describe_runs(runs),
        list_false_alarms(runs, calibration, fresh, crossed),
        list_failures(verdicts),
        list_others(runs, calibration, "others", "Settings and kinds of failure of others", MEANT_OTHERS),
        list_others(runs, calibration, "real", "Those of SmolLM2-135M-Instruct", MEANT_REAL),
        describe_onsets(verdicts),
        list_remedies(),
        list_public(runs, crossed, verdicts),
        list_thresholds(calibration),
    ]


def calibrate(runs: dict[str, list[Archived]]) -> tuple[Calibration, list[dict[str, Any]], list[set[str]]]:
    """The calibration that the package ships, what it says of each failure, and which rules flag the fresh runs."""
    healthy = [run for run in runs["healthy"] if run.status == "finished"]
    found = [score_run(run.metrics, run.evaluation, run.config, run.samples) for run in healthy]
    for run, of_run in zip(healthy, found, strict=True):
        if run.name in GAINED_NOTHING:
            of_run[STILL] = None
    scores = {rule: [_round(scores[rule]) for scores in found] for rule in found[0]}
    calibration = Calibration(scores, [run.name for run in healthy])
    warned = {name for run in healthy for name, status in run.checks.items() if status == "warned"}
    verdicts = [judge(run, calibration, warned) for run in runs["failures"]]
    shown = [judge(run, calibration, set(), MEANT_OTHERS) for run in runs["others_failures_developed"]]
    raised = Counter(name for verdict in verdicts + shown for name in verdict["flagged"])
    right = Counter(name for verdict in verdicts + shown for name in verdict["flagged"] & verdict["right"])
    counts = {name: [right[name], raised[name]] for name in sorted(raised)}
    fresh = [list_false(run, calibration) for run in runs["healthy_test"] if run.status == "finished"]
    settings = {run.name for run in runs["healthy_test"]}
    flagged = {run.name for run, by in zip(runs["healthy_test"], fresh, strict=True) if by}
    others = {run.name for run in runs["others"] if list_false(run, calibration)}
    tested = {
        "own": [len(flagged), len(settings)],
        "others": [len(others), len({run.name for run in runs["others"]})],
    }
    return replace(calibration, right=counts, tested=tested), verdicts, fresh


def list_false(run: Archived, calibration: Calibration) -> set[str]:
    """The rules that flag a healthy run, but for what is true of settings that gain nothing."""
    return {*list_flags(run, calibration)} - ({STILL} if run.name in GAINED_NOTHING else set())


def _round(score: float | None) -> float | None:
    return None if score is None else round(score, 6)


def judge(
    run: Archived, calibration: Calibration, warned: set[str], meant: dict[str, tuple[str, str]] = MEANT
) -> dict[str, Any]:
    """What the diagnosis, and it and the preflight together, say of a failure; checks in `warned` warn of healthy runs
    too, and count only if they fail."""
    findings = list_flags(run, calibration)
    right = set(meant[run.name][1].split())
    steps = [dates[0] for name in findings.keys() & right if (dates := findings[name].steps)]
    last = run.metrics[-1]["step"] if run.metrics else 1
    checks = {name for name, status in run.checks.items()
              if status == "failed" or status == "warned" and name not in warned}  # fmt: skip
    checked = checks & set(CHECKS.get(run.name, "").split())
    return {"run": run, "flagged": set(findings), "right": right, "test": run.seed not in DEVELOPED,
            "checks": checks, "verdict": weigh(findings.keys() & right, findings),
            "together": weigh(checked | findings.keys() & right, checks | findings.keys()),
            "onset": min(steps) / last if steps else None, "onset_step": min(steps, default=None)}  # fmt: skip


def weigh(right: Collection[str], named: Collection[str]) -> str:
    return "rightly" if right else "wrongly" if named else "healthy"


def cross_fit(calibration: Calibration) -> list[set[str]]:
    """Of each healthy run the rules that flag it by thresholds from the runs of the other settings."""
    flagged: list[set[str]] = [set() for _ in calibration.settings]
    for setting in dict.fromkeys(calibration.settings):
        others = [i for i, name in enumerate(calibration.settings) if name != setting]
        kept: Scores = {rule: [values[i] for i in others] for rule, values in calibration.scores.items()}
        thresholds = find_thresholds(kept)
        for i, name in enumerate(calibration.settings):
            if name == setting:
                for rule, values in calibration.scores.items():
                    if (values[i] or 0.0) > thresholds.get(rule, float("inf")):
                        flagged[i].add(rule)
    return flagged


@cache
def interval(k: int, n: int) -> str:
    low = beta.ppf(0.025, k, n - k + 1) if k else 0.0
    high = beta.ppf(0.975, k + 1, n - k) if k < n else 1.0
    return f"{k} of {n}, {100 * k / n:.1f}% [{100 * low:.1f}, {100 * high:.1f}]" if n else "0 of 0"


def table(head: list[str], rows: list[list[Any]]) -> str:
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in [head, ["---"] * len(head), *rows])


def describe_runs(runs: dict[str, list[Archived]]) -> tuple[str, str]:
    hours = sum(run.cpu_s for kind in KINDS for run in runs[kind]) / 3600
    counts = [f"{len(runs[kind])} `{kind}` of {len({run.name for run in runs[kind]})} settings" for kind in KINDS]
    return f"Runs: {', '.join(counts)}, in {hours:.1f} hours of one CPU core.", ""


def list_flags(run: Archived, calibration: Calibration) -> dict[str, Finding]:
    """The findings that flag it, by name."""
    said = diagnose(run.metrics, run.evaluation, run.config, run.room, run.samples, calibration).findings
    return {found.name: found for found in said if found.severity != "info"}


def list_false_alarms(
    runs: dict[str, list[Archived]], calibration: Calibration, fresh: list[set[str]], crossed: list[set[str]]
) -> tuple[str, str]:
    healthy = [run for run in runs["healthy"] if run.status == "finished"]
    n = calibration.runs
    checks = [list(run.checks.values()) for run in healthy if run.checks]
    own, settings = calibration.tested["own"]
    counts = [
        ["**fresh seeds, shipped thresholds**: runs that set nothing", sum(map(bool, fresh)), len(fresh)],
        ["**their settings**, with at least one flagged run", own, settings],
        ["cross-fitted over settings: a setting is judged by the others' thresholds", sum(map(bool, crossed)), n],
        ["the runs that set the shipped thresholds", standing(calibration), n],
        ["refused by the preflight", sum("failed" in of for of in checks), len(checks)],
        ["warned by the preflight", sum("warned" in of for of in checks), len(checks)],
    ]  # fmt: skip
    test = [run for run in runs["healthy_test"] if run.status == "finished"]
    said = [("fresh", *of) for of in zip(test, fresh, strict=True)]
    said += [("cross-fitted", *of) for of in zip(healthy, crossed, strict=True)]
    rows = [[f"`{run.name}`", run.seed, ", ".join(sorted(by)), how] for how, run, by in said if by]
    warned = Counter(name for run in healthy for name, status in run.checks.items() if status == "warned")
    more = f"Warnings of the preflight: {', '.join(f'{name} {n}' for name, n in warned.most_common()) or 'none'}."
    more += f"\n\n{table(['flagged healthy run', 'seed', 'by', 'how'], rows)}" if rows else ""
    return table(["healthy runs", "flagged"], [[what, interval(k, n)] for what, k, n in counts]), more


def standing(calibration: Calibration) -> int:
    """Healthy runs above the thresholds that they have set themselves."""
    return sum(
        any(
            calibration.is_above(rule, values[i])
            for rule, values in calibration.scores.items()
            if values[i] is not None
        )
        for i in range(calibration.runs)
    )


VERDICTS = ("rightly", "wrongly", "healthy")


def list_failures(verdicts: list[dict[str, Any]]) -> tuple[str, str]:
    test = [verdict for verdict in verdicts if verdict["test"]]
    parts = {
        "development seeds, diagnosis": [v["verdict"] for v in verdicts if not v["test"]],
        "test seeds, diagnosis": [v["verdict"] for v in test],
        "**test seeds, preflight or diagnosis**": [v["together"] for v in test],
    }
    sums = [[title, *(interval(found.count(name), len(found)) for name in VERDICTS)] for title, found in parts.items()]
    for title, key in (("diagnosis", "verdict"), ("preflight or diagnosis", "together")):
        named = [weigh_kind([v[key] for v in test if v["run"].name == kind]) for kind in MEANT]
        sums.append([f"**kinds**, test seeds, {title}: most of their runs", interval(sum(named), len(named)), "", ""])
    rows, details = [], []
    for kind, (harm, _) in MEANT.items():
        of_kind = [v for v in verdicts if v["run"].name == kind]
        of_test = [v for v in of_kind if v["test"]]
        onsets = [v["onset"] for v in of_kind if v["onset"] is not None]
        right = sum(v["verdict"] == "rightly" for v in of_test)
        found, checks = [v["flagged"] for v in of_kind], most_common((v["checks"] for v in of_test), 2)
        rows.append([f"`{kind}`", harm, f"{right} of {len(of_test)}: {most_common(found, 1).split()[0]}"])
        details.append([
            f"`{kind}`", measure_harm([v["run"] for v in of_kind]), count(v for v in of_kind if not v["test"]),
            count(of_test), most_common(found, 4), checks, f"{100 * median(onsets):.0f}%" if onsets else "-",
        ])  # fmt: skip
    page = [
        table(["", "named rightly", "named wrongly", "passed as healthy"], sums),
        "Test runs that the diagnosis names rightly, by kind, and what it finds most often:",
        table(["failure", "meant to show as", "named rightly"], rows),
    ]
    head = ["failure", "accuracy, points", "development", "test", "findings (runs)", "preflight (test runs)",
            "first step, share of the run"]  # fmt: skip
    said = "Rightly / wrongly / passed as healthy by the diagnosis, and what the preflight said of the same settings:"
    return "\n\n".join(page), f"{said}\n\n{table(head, details)}"


def list_others(
    runs: dict[str, list[Archived]], calibration: Calibration, of: str, called: str, meant: dict[str, tuple[str, str]]
) -> tuple[str, str]:
    """How the diagnosis does on settings and kinds that no rule was made on, and on those that rules were mended on."""
    sums, of_settings, of_kinds = [], [], []
    for title, part in (("**test**", ""), ("rules were mended on these", "_developed")):
        healthy = [(run, list_false(run, calibration)) for run in runs[f"{of}{part}"]]
        sick = [judge(run, calibration, set(), meant) for run in runs[f"{of}_failures{part}"]]
        named = [weigh_kind([v["verdict"] for v in sick if v["run"].name == kind]) for kind in by_name(sick)]
        settings = dict.fromkeys(run.name for run, _ in healthy)
        flagged = {run.name for run, by in healthy if by}
        sums += [
            [f"{title}: healthy runs flagged", interval(sum(bool(by) for _, by in healthy), len(healthy))],
            ["their settings with a flagged run", interval(len(flagged), len(settings))],
            ["failures named rightly", interval(sum(v["verdict"] == "rightly" for v in sick), len(sick))],
            ["kinds named rightly in most of their runs", interval(named.count(True), len(named))],
        ]
        for name in settings:
            found = [by for run, by in healthy if run.name == name]
            of_settings.append([f"`{name}`", title, f"{sum(map(bool, found))} of {len(found)}", most_common(found, 3)])
        for name in by_name(sick):
            of_kind = [v for v in sick if v["run"].name == name]
            of_kinds.append([f"`{name}`", title, meant[name][0], measure_harm([v["run"] for v in of_kind]),
                             count(of_kind), most_common((v["flagged"] for v in of_kind), 4)])  # fmt: skip
    page = f"{called} (`bench/calibration/{of}.py`), by the diagnosis alone:"
    head = ["failure", "", "meant to show as", "accuracy, points", "rightly / wrongly / passed", "findings (runs)"]
    tested, mended = table(["", "of"], sums[:4]), table(["", "of"], sums[4:])
    tested, mended = (tested, mended) if runs[of] else (mended, "")  # the test is not looked at yet
    more = [mended, table(["healthy setting", "", "flagged", "by"], of_settings), table(head, of_kinds)]
    return f"{page}\n\n{tested}", "\n\n".join(more)


def by_name(verdicts: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(verdict["run"].name for verdict in verdicts))


def weigh_kind(verdicts: list[str]) -> bool:
    """Whether more than half of a kind's runs are named rightly: runs of a kind are alike, so that a rate over kinds is
    what a new kind has to expect."""
    return 2 * verdicts.count("rightly") > len(verdicts)


def count(verdicts: Iterable[dict[str, Any]]) -> str:
    found = [verdict["verdict"] for verdict in verdicts]
    return " / ".join(str(found.count(name)) for name in VERDICTS) if found else "-"


def most_common(sets: Iterable[Collection[str]], most: int) -> str:
    return ", ".join(f"{name} {n}" for name, n in Counter(sorted(sum(map(list, sets), []))).most_common(most)) or "-"


def measure_harm(runs: list[Archived]) -> str:
    """The mean change of held-out accuracy (of a reward model on pairs), in points, and its range over seeds."""
    sides = [(run.evaluation.trained, run.evaluation.baseline) for run in runs]
    accuracies = [(after.accuracy, before.accuracy) for after, before in sides if after and before]
    changes = [100 * (after["value"] - before["value"]) for after, before in accuracies if after and before]
    if not changes:
        return "-"
    return f"{sum(changes) / len(changes):+.0f} ({min(changes):+.0f} to {max(changes):+.0f})"


def describe_onsets(verdicts: list[dict[str, Any]]) -> tuple[str, str]:
    said, (near, n), rows, head = list_onsets(verdicts)
    return f"**Onset**, of the test runs: {said}: {interval(near, n)}.", table(head, rows)


def list_remedies() -> tuple[str, str]:
    """What remedies.py found."""
    tried = json.loads((HERE / "remedies.json").read_text(encoding="utf-8"))
    rows = []
    for kind in dict.fromkeys(row["kind"] for row in tried):
        of_kind = [row for row in tried if row["kind"] == kind]
        cells = [f"`{kind}`", ", ".join(dict.fromkeys(row["by"] or "none" for row in of_kind))]
        for way in ("alone", "together"):
            ways = [row[way] for row in of_kind]
            accuracies = [f"{percent(row['accuracy'])} to {percent(row[way].get('accuracy'))}" for row in of_kind]
            cells.append(", ".join(dict.fromkeys(f"`{text}`" for one in ways for text in one["remedies"])))
            cells.append(", ".join(accuracies))
            cells.append(f"{count_mended(ways)} of {len(ways)}")
        rows.append(cells)
    said = []
    for way, title in (("alone", "One alone"), ("together", "All of a run's together")):
        ways = [row[way] for row in tried]
        healthy, better = (interval(sum(one[key] for one in ways), len(ways)) for key in ("healthy", "better"))
        both = interval(count_mended(ways), len(ways))
        said.append(f"{title}: healthy with it {healthy}; more accurate than without it {better}; both {both}.")
    single = [row["alone"] for row in tried if row["kind"] not in SEVERAL_FAULTS]
    both = interval(count_mended(single), len(single))
    said.append(f"One alone, without the kinds that have several faults ({', '.join(SEVERAL_FAULTS)}): both {both}.")
    left = len(MEANT) - len({row["kind"] for row in tried})
    said.append(f"Left out: {left} kinds: faults of code or rows, which no override undoes, and top_p.")
    head = ["failure", "finding", "one alone", "accuracy without and with it, %", "healthy and better",
            "all together", "accuracy, %", "healthy and better"]  # fmt: skip
    return f"**Remedies**, two new seeds. {' '.join(said)}", table(head, rows)


def count_mended(ways: list[dict[str, Any]]) -> int:
    """How many are healthy and more accurate with their remedies."""
    return sum(one["healthy"] and one["better"] for one in ways)


def percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f}"


def list_public(
    runs: dict[str, list[Archived]], crossed: list[set[str]], verdicts: list[dict[str, Any]]
) -> tuple[str, str]:
    caught = sum(v["verdict"] != "healthy" for v in verdicts)
    of_healthy = interval(sum(map(bool, crossed)), len(crossed))
    rows = [["these rules, all together", of_healthy, interval(caught, len(verdicts))]]
    for name in PUBLIC:
        counts = []
        for kind in ("healthy", "failures"):
            found = [said for run in runs[kind] if (said := flag(name, run)) is not None]
            counts.append(interval(sum(found), len(found)))
        rows.append([name, *counts])
    if (path := HERE / "provenir.json").exists():
        of = json.loads(path.read_text(encoding="utf-8"))
        for title, key in (("any anomaly", "any"), ("a critical one", "critical")):
            healthy, fresh, sick = (interval(of[kind][key], of[kind]["runs"]) for kind in KINDS)
            name = f"provenir 0.8.0, FlightRecorder, runs with rewards: {title}"
            rows += [[name, healthy, sick], [f"{name}, fresh healthy runs", fresh, "-"]]
    return "", table(["rule", "healthy runs flagged", "failures flagged (by any name)"], rows)


def list_thresholds(calibration: Calibration) -> tuple[str, str]:
    rows, said = [], []
    for rule, values in calibration.scores.items():
        known = [value for value in values if value is not None]
        limit = calibration.thresholds.get(rule)
        right, raised = calibration.right.get(rule, [0, 0])
        shown = ["-", "-"] if limit is None else [f"{max(known):.2f}", f"{limit:.2f}"]
        rows.append([f"`{rule}`", len(known), *shown, f"{right} of {raised}"])
        said += [f"{rule} {right} of {raised}"] if raised else []
    page = f"How often the name is that of the cause, of the failures that a rule flags: {', '.join(said)}."
    return page, table(["rule", "healthy runs", "largest score", "threshold", "right, on failures"], rows)


if __name__ == "__main__":
    main()
