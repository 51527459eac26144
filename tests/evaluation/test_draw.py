"""Completions to learn from, of the shipped model."""

import json
from pathlib import Path

import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.evaluation.draw import sample
from rlhf_exp.models.loading import load_tokenizer, resolve_model
from rlhf_exp.tasks import draw_prompts, load_task
from rlhf_exp.tasks.sampled import learn_from
from tests.building import build, read_jsonl

SMALL = ["task.sampling.rows=16", "task.sampling.completions=4", "max_tokens=32", "device=cpu", "device.threads=1"]
TINY = resolve_model(compose_config([]), Path())


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished folder, and beside it the cache."""
    folder = tmp_path_factory.mktemp("samples") / "first"
    sample(compose_config([*SMALL, f"eval.cache_dir={folder.parent}/cache"]), folder, TINY, load_tokenizer(TINY))
    return folder


def test_the_folder_is_a_run_folder_with_samples_of_the_prompts_to_train_on_in_their_order(finished):
    record = json.loads((finished / "run.json").read_text())
    assert [record[name] for name in ("status", "algo", "baseline_cached")] == ["finished", "sample", False]
    section = json.loads((finished / "evaluation.json").read_text())["baseline"]
    assert (section["split"], section["n"], section["completions"]) == ("train", 16, 4)
    cfg, tokenizer, rows = compose_config([]), load_tokenizer(TINY), read_jsonl(finished / "samples.jsonl")
    drawn = [row["id"] for row in draw_prompts(cfg, tokenizer, 16)]
    assert [(row["id"], row["sample"]) for row in rows] == [(name, i) for name in drawn for i in range(4)]
    assert {(row["which"], row["decoding"]) for row in rows} == {("baseline", "sampled")}
    assert {*drawn}.isdisjoint(row["id"] for row in load_task(cfg, tokenizer).eval)


def test_demonstrations_are_the_correct_samples_read_as_they_were_sampled_and_end_in_one_eos(finished, tmp_path):
    cfg, tokenizer = compose_config(["algo=sft", f"task.samples={finished}"]), load_tokenizer(TINY)
    task = learn_from(cfg, load_task(cfg, tokenizer), finished)
    graded = read_jsonl(finished / "samples.jsonl")
    right = [row for row in graded if row["outcome"] == "correct" and not row["truncated"]]
    correct = {(row["prompt"], row["completion"]) for row in right}
    assert {(row["prompt"], row["completion"].removeprefix(" ")) for row in task.train} == correct
    assert len(task.train) == len(correct) > 0
    trainer = build(tmp_path, "algo=sft", "device=cpu", rows=task.train)
    for row, encoded in zip(task.train, trainer.train_dataset, strict=True):
        ids = encoded["input_ids"]
        assert ids.count(tokenizer.eos_token_id) == 1 and ids[-1] == tokenizer.eos_token_id
        assert tokenizer.decode(ids[:-1]) == row["prompt"] + row["completion"]
        assert tokenizer.unk_token_id not in ids


def test_samples_are_made_once_for_the_same_settings_and_anew_for_another_seed_or_a_broken_folder(finished, tmp_path):
    cache, tokenizer = f"eval.cache_dir={finished.parent}/cache", load_tokenizer(TINY)

    def draw(name, *overrides):
        cfg = compose_config([*overrides, *SMALL, cache, "eval.rows=4", "eval.completions=2", "eval.greedy=true"])
        assert sample(cfg, tmp_path / name, TINY, tokenizer) == tmp_path / name
        return (tmp_path / name / "samples.jsonl").read_text()

    texts = {name: draw(name, f"algo={name}") for name in ("dpo", "reward_model")}
    assert set(texts.values()) == {(finished / "samples.jsonl").read_text()}
    assert draw("seed", "algo=dpo", "seed=1") not in texts.values()
    records = {name: json.loads((tmp_path / name / "run.json").read_text()) for name in (*texts, "seed")}
    assert [record["baseline_cached"] for record in records.values()] == [True, True, False]
    (tmp_path / "dpo" / "samples.jsonl").write_text("kept\n")
    assert draw("dpo", "algo=dpo") == "kept\n"
    (tmp_path / "dpo" / "run.json").write_text(json.dumps({**records["dpo"], "status": "stopped"}))
    assert draw("dpo", "algo=dpo") == texts["dpo"]
