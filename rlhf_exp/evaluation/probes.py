"""The failure-mode probes (eval.probes=on): replies to the prompts of assets/probes.yaml, judged by graders/probes.py.

    probes = load_probes(experiment)
    lines = [*probes.judge("baseline", experiment, completions), ...]     # probes.jsonl
    summarise_probes(lines)                                               # `probes` of evaluation.json

Each prompt has a greedy completion and one drawn with the sampling of the evaluation, of both models with the same
random numbers. The start model's are cached like its other completions.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml

from rlhf_exp.evaluation.completions import Completion, judge
from rlhf_exp.experiment import Experiment
from rlhf_exp.graders.probes import judge_probe
from rlhf_exp.stats import DIFFERENCES, paired_interval, share_interval
from rlhf_exp.tasks import wants_chat
from rlhf_exp.tasks.prompts import count_unknown
from rlhf_exp.tasks.texts import add_system_prompt, shape_prompt
from rlhf_exp.tasks.tokens import encode_prompts

FILE = Path(__file__).parent.parent / "assets" / "probes.yaml"
TURN = "\n\nHuman:"
PLAIN = TURN + " {}\n\nAssistant:"
"""How a model without a chat template is asked; where it goes on with a turn of the human, its reply ends."""


@dataclass(frozen=True)
class Probes:
    """The probes that fit into the model's context with the budget.

    Attributes:
        experiment: the run's, with their prompts as its held-out rows.
        facts: `left_out`, how many probes do not fit; `unknown_words`, how many words of the prompts are not in the
            model's vocabulary; `max_tokens`, the budget.
    """

    experiment: Experiment
    facts: dict[str, int]

    def judge(self, which: str, completions: list[Completion]) -> list[dict[str, Any]]:
        """The lines of probes.jsonl for one model's completions."""
        rows, replies, lines = self.experiment.task.eval, dict[tuple[int, str], tuple[str, bool]](), []
        for one in judge(self.experiment, completions) if completions else ():
            text, turn, _ = one.text.partition(TURN)
            replies[one.row, one.decoding] = text, one.truncated and not turn
        for (place, decoding), (text, truncated) in replies.items():
            kind, name, probe, asked = (rows[place][key] for key in ("kind", "id", "probe", "asked"))
            if asked == probe["question"] and "claim" in probe:  # is read with the row before it
                continue
            alone = replies[place + 1, decoding][0] if "claim" in probe else ""
            verdict, why = judge_probe(kind, probe, text, truncated, alone)
            line = {"which": which, "kind": kind, "id": name, "decoding": decoding, "prompt": asked, "completion": text}
            lines.append(line | ({"alone": alone} if "claim" in probe else {}) | {"verdict": verdict, "why": why})
        return lines


def load_probes(experiment: Experiment) -> Probes:
    """The probes in the form of the model's prompts: its chat template and the system prompt, or a plain dialogue."""
    cfg, tokenizer = experiment.cfg, experiment.tokenizer
    chat, rows, left_out = wants_chat(cfg, tokenizer), list[dict[str, Any]](), 0
    for kind, probes in yaml.safe_load(FILE.read_text(encoding="utf-8")).items():
        for place, probe in enumerate(probes, start=1):
            found, question = [], probe["question"]
            for asked in [f"{probe['claim']} {question}", question] if "claim" in probe else [question]:
                prompt = shape_prompt(asked if chat else PLAIN.format(asked), chat)
                row = {"kind": kind, "id": f"{kind} {place}", "probe": probe, "asked": asked}
                found.append(row | {"prompt": add_system_prompt(prompt, cfg.task.system_prompt)})
            fits = max(map(len, encode_prompts(tokenizer, found))) + cfg.max_tokens <= tokenizer.model_max_length
            rows, left_out = rows + (found if fits else []), left_out + (not fits)
    unknown = 0 if chat else sum(count_unknown(tokenizer, [row["prompt"] for row in rows]).values())
    facts = {"left_out": left_out, "unknown_words": unknown, "max_tokens": cfg.max_tokens}
    cfg = replace(cfg, eval=replace(cfg.eval, completions=1, greedy=True))
    return Probes(replace(experiment, cfg=cfg, task=replace(experiment.task, eval=rows, grade=None), rewards=[]), facts)


def summarise_probes(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Of each kind the number of probes `n`; of each model how many of them were judged, and the share of which the
    verdict holds; and the `difference` over those that were judged of both. Each counts by the mean of its replies."""
    verdicts: dict[str, dict[str, dict[str, list[bool]]]] = {}
    for line in lines:
        of_probe = verdicts.setdefault(line["kind"], {}).setdefault(line["which"], {}).setdefault(line["id"], [])
        of_probe += [] if line["verdict"] is None else [line["verdict"]]
    return {kind: _summarise_kind(of_kind) for kind, of_kind in verdicts.items()}


def _summarise_kind(of_kind: dict[str, dict[str, list[bool]]]) -> dict[str, Any]:
    section: dict[str, Any] = {"n": len(of_kind["baseline"])}
    shares = {side: {name: fmean(found) for name, found in of.items() if found} for side, of in of_kind.items()}
    for side, of in shares.items():
        section[side] = {"judged": len(of), "share": share_interval([*of.values()], 2) if of else None}
    if both := [name for name in shares.get("trained", {}) if name in shares["baseline"]]:
        before, after = ([shares[side][name] for name in both] for side in ("baseline", "trained"))
        section |= {"both": len(both), "difference": paired_interval(before, after, DIFFERENCES)}
    return section
