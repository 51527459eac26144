from rlhf_exp.evaluation import cache
from rlhf_exp.evaluation.completions import Completion, sample_held_out
from rlhf_exp.evaluation.probes import PLAIN, load_probes, summarise_probes
from rlhf_exp.runs.folder import read_jsonl
from tests.evaluation.test_completions import TOKENIZER, make_config, make_model, set_up
from tests.evaluation.test_evaluators import SFT, measure


def make_line(which, name, verdict, kind="agreement", decoding="greedy"):
    return {"which": which, "kind": kind, "id": name, "decoding": decoding, "verdict": verdict}


def test_shares_are_of_judged_probes_and_the_difference_is_over_those_judged_of_both():
    before, after = (
        {"a": [True, False], "b": [None, True], "c": [None]},
        {"a": [False, False], "b": [None], "c": [True]},
    )
    lines = [make_line(which, name, verdict) for which, of in (("baseline", before), ("trained", after))
             for name, verdicts in of.items() for verdict in verdicts]  # fmt: skip
    found = summarise_probes(lines)["agreement"]
    assert found["n"] == 3 and found["both"] == 1
    assert found["baseline"]["judged"] == 2 and found["baseline"]["share"]["value"] == 0.75
    assert found["trained"]["judged"] == 2 and found["trained"]["share"]["value"] == 0.5
    assert found["difference"]["value"] == -0.5
    nothing = summarise_probes([make_line(which, "a", None) for which in ("baseline", "trained")])["agreement"]
    assert nothing == {"n": 1, **{side: {"judged": 0, "share": None} for side in ("baseline", "trained")}}


def test_prompts_are_asked_as_the_model_reads_them_and_those_without_room_are_left_out(monkeypatch):
    probes = load_probes(set_up(make_config("task.system_prompt=Be brief.")))
    row = probes.experiment.task.eval[-1]
    assert row["prompt"] == "Be brief.\n\n" + PLAIN.format(row["asked"])
    assert probes.facts["left_out"] == 0 and probes.facts["unknown_words"] > 1000
    monkeypatch.setattr(TOKENIZER, "model_max_length", 42)
    fewer = load_probes(set_up(make_config()))
    assert fewer.facts["left_out"] > 0
    assert max(len(TOKENIZER(row["prompt"])["input_ids"]) for row in fewer.experiment.task.eval) <= 30
    monkeypatch.setattr(TOKENIZER, "model_max_length", 12)
    nothing = load_probes(set_up(make_config()))
    found = sample_held_out(nothing.experiment, make_model(), purpose="probes")
    assert nothing.judge("baseline", found) == nothing.experiment.task.eval == []


def test_a_reply_ends_where_the_model_writes_the_next_turn_and_a_claim_is_judged_beside_the_question_alone(monkeypatch):
    probes = load_probes(set_up(make_config()))
    rows = probes.experiment.task.eval
    texts = {"agreement 1": "Sydney"}

    def give_texts(experiment, of):
        alone = [row["asked"] == row["probe"]["question"] for row in rows]
        return [Completion(i, 0, "greedy", [1], True, text="Canberra\n\nHuman: what" if only else
                texts.get(rows[i]["id"], "")) for i, only in enumerate(alone)]  # fmt: skip

    monkeypatch.setattr("rlhf_exp.evaluation.probes.judge", give_texts)
    lines = probes.judge("baseline", [Completion(0, 0, "greedy", [1], True)])
    assert len(lines) == len({row["id"] for row in rows})
    assert (lines[0]["completion"], lines[0]["alone"], lines[0]["verdict"]) == ("Sydney", "Canberra", True)
    foreign = next(line for line in lines if line["kind"] == "out_of_distribution")
    assert foreign["completion"] == "Canberra" and foreign["why"] == "none of the signs"


def test_start_and_trained_model_are_measured_with_the_same_draws_and_the_start_model_once(tmp_path, monkeypatch):
    overrides = [*SFT, "eval.probes=on", "task.train_rows=8"]
    found = measure(tmp_path / "a", *overrides, f"eval.cache_dir={tmp_path / 'shared'}")
    lines = read_jsonl(tmp_path / "a" / "probes.jsonl")
    sides = [[{**line, "which": ""} for line in lines if line["which"] == which] for which in ("baseline", "trained")]
    assert sides[0] == sides[1] and len(sides[0]) == 2 * sum(of["n"] for of in found["probes"].values()) >= 120
    assert found["probes"]["capability"]["difference"]["value"] == 0
    monkeypatch.setattr(cache, "sample_held_out", None)  # the start model's replies are in the cache
    assert measure(tmp_path / "b", *overrides, f"eval.cache_dir={tmp_path / 'shared'}")["probes"] == found["probes"]
