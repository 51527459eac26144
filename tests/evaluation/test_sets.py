"""Further evaluation sets (eval.sets): the same model on other rows, with another grader or reward."""

import pytest

from rlhf_exp.config import ROOT
from rlhf_exp.config.compose import compose_config
from rlhf_exp.evaluation import cache
from rlhf_exp.models.loading import load_tokenizer, resolve_model
from rlhf_exp.tasks import load_held_out
from tests.building import read_jsonl
from tests.evaluation.test_evaluators import SFT, SMALL, measure

SETS = ["+eval.sets.easy={task: countdown, numbers: [2]}", "+eval.sets.same={}"]


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """evaluation.json and the samples without sets, and with sets."""
    folder = tmp_path_factory.mktemp("sets")
    found = []
    for name, overrides in {"without": [], "with": SETS}.items():
        made = measure(folder / name, *SFT, f"eval.cache_dir={folder / 'shared'}", *overrides)
        found.append((made, read_jsonl(folder / name / "samples.jsonl")))
    return folder, *found


def test_the_main_figures_and_samples_are_those_of_a_run_without_sets(measured):
    _, (without, samples), (found, all_samples) = measured
    assert {name: section for name, section in found.items() if name != "sets"} == without
    assert [line for line in all_samples if "set" not in line] == samples


def test_a_set_has_the_form_of_the_main_figures_and_is_graded_by_its_task(measured):
    _, (without, _), (found, samples) = measured
    easy, same = found["sets"]["easy"], found["sets"]["same"]
    assert [*easy] == ["baseline", "trained", "paired"] and easy["paired"]["difference"]["value"] == 0
    assert "accuracy" in easy["baseline"] and "accuracy" not in same["baseline"]
    assert same["trained"]["mean_tokens"] == without["trained"]["mean_tokens"]  # the same rows and draws
    lines = [line for line in samples if line.get("set") == "easy" and line["which"] == "trained"]
    assert len(lines) == easy["trained"]["n"] and all(line["prompt"].startswith("use ") for line in lines)


def test_the_start_model_is_measured_once(measured, monkeypatch):
    folder, _, (found, _) = measured
    monkeypatch.setattr(cache, "sample_rows", None)
    again = measure(folder / "again", *SFT, f"eval.cache_dir={folder / 'shared'}", *SETS)
    assert again["sets"] == found["sets"]


def test_all_rows_of_the_probes_are_held_out_in_the_form_of_the_model(tmp_path):
    overrides = [
        *SMALL,
        *SFT,
        "eval=probes",
        "eval.rows=512",
        'eval.sets.agreement.prompt_template="Human: {question}\\n"',
    ]
    cfg = compose_config([*overrides, "device=cpu"])
    tokenizer = load_tokenizer(resolve_model(cfg, tmp_path))
    for name, of in cfg.sets.items():
        task = load_held_out(of, tokenizer, "test", of.eval.limit)
        assert len(task.eval) == len(read_jsonl(ROOT / "sweeps" / "probes" / f"{name}.jsonl")) >= 15
        assert all(row["prompt"].startswith("Human: ") and row["prompt"].endswith("\n") for row in task.eval)
        assert task.grade("I can't say.", task.eval[0]).outcome in ("failed", "partial")
