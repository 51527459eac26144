"""The failure-mode probes (eval.probes=on) in the report of one run: a table, the rules, two samples of each kind.

describe_probes(load_run(run_dir))  ->  blocks
"""

from rlhf_exp.report.columns import Column, at, fill
from rlhf_exp.report.page import NOTES, TEXTS, Block, Heading, Pair, Text, footnote
from rlhf_exp.runs.figures import percent, points
from rlhf_exp.runs.load import Run

NAMES: dict[str, str] = dict(TEXTS["sections"]["probes"])
FIGURES = (
    Column("kind", at("title")), Column("prompts", at("n")),
    Column("judged before", at("baseline", "judged")), Column("start", at("baseline", "share"), percent),
    Column("judged after", at("trained", "judged")), Column("trained", at("trained", "share"), percent),
    Column("judged of both", at("both")), Column("difference", at("difference"), points),
)  # fmt: skip
SHOWN = 2  # samples of each kind


def describe_probes(run: Run) -> list[Block]:
    """Empty if there were no probes."""
    if not (section := run.evaluation.get("probes")):
        return []
    table = fill(FIGURES, [found | {"title": NAMES[kind]} for kind, found in section.items()])
    note = footnote(NOTES["probes"].format(**run.evaluation["probe_facts"]))
    blocks: list[Block] = [Heading("Failure-mode probes"), table, note]
    for kind in section:
        blocks += [Text(TEXTS["figures"][NAMES[kind]]), *(_show_samples(run, kind) if run.shows_texts else [])]
    return blocks if run.shows_texts else [*blocks, Text(NOTES["no texts"])]


def _show_samples(run: Run, kind: str) -> list[Block]:
    """Two replies before and after, those first whose verdict changed."""
    pairs: dict[tuple[str, str], list[dict]] = {}
    for line in run.probes:
        if line["kind"] == kind:
            pairs.setdefault((line["id"], line["decoding"]), []).append(line)
    found = sorted(pairs.items(), key=lambda pair: pair[1][0]["verdict"] == pair[1][-1]["verdict"])[:SHOWN]
    return [Pair(", ".join(name), of[0]["prompt"], tuple(map(_caption, of)), folded=True) for name, of in found]


def _caption(line: dict) -> tuple[str, str]:
    verdict = {True: "counts", False: "does not count", None: "not judged"}[line["verdict"]]
    return f"{'Before' if line['which'] == 'baseline' else 'After'}: {verdict}, {line['why']}", line["completion"]
