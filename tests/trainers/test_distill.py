"""Distillation: its loss and gradient against plain float64 distributions, and what is measured of it."""

import json

import pytest
import torch

from rlhf_exp.config.model_shape import ASSETS
from rlhf_exp.errors import ConfigError
from tests.building import DISTILL_8, UNTRAINED, build, build_experiment
from tests.trainers.references import assert_same_gradient, copy_float64, move, roll_out, unpad

ROWS = [{"id": str(i), "prompt": f"use {i + 2} 7 3 make 53 ." + " use" * (i % 3)} for i in range(8)]
SMALL = [*DISTILL_8, "device=cpu", "device.threads=1", "max_tokens=12"]


def log_probabilities(model, prompt, completion):
    """(completion tokens, vocabulary)"""
    return model(torch.tensor([[*prompt, *completion]])).logits[0, len(prompt) - 1 : -1].log_softmax(-1)


@pytest.mark.parametrize("beta", [0.0, 1.0, 0.3])
def test_the_loss_is_the_divergence_per_token_and_its_gradient_is_that_of_the_student(tmp_path, beta):
    """arXiv:2306.13649, section 2.1, with the student's share beta in the mixture, as TRL has it."""
    trainer = build(tmp_path, *SMALL, f"algo.args.beta={beta}", rows=ROWS)
    move(trainer.model, 0.1)
    student, teacher = copy_float64(trainer.model), copy_float64(trainer.teacher_model)
    batch = roll_out(trainer, ROWS)
    divergences = []
    for row in unpad(batch):
        s, t = log_probabilities(student, *row), log_probabilities(teacher, *row).detach()
        if beta in (0, 1):
            p, q = (s, t) if beta else (t, s)
            divergences += (p.exp() * (p - q)).sum(-1)
        else:
            mixed = torch.log((1 - beta) * s.exp() + beta * t.exp())
            divergences += beta * (t.exp() * (t - mixed)).sum(-1) + (1 - beta) * (s.exp() * (s - mixed)).sum(-1)
    wanted = sum(divergences) / len(divergences)
    loss = trainer.compute_loss(trainer.model, batch)
    assert loss.item() == pytest.approx(wanted.item(), rel=1e-3) and wanted > 1e-3
    wanted.backward()
    trainer.model.zero_grad()
    loss.backward()
    assert_same_gradient(trainer.model, student, 1e-3)


@pytest.fixture(scope="module")
def trained(command_line, tmp_path_factory):
    """The folder of a run of two steps, whose teacher is the run of the shipped model that is measured before."""
    folder = tmp_path_factory.mktemp("distill")
    few = ["task=countdown", "eval.rows=6", "max_tokens=12", "device=cpu", "device.threads=1", "eval.cache_dir=null"]
    taught = [*UNTRAINED, *DISTILL_8, "algo.args.max_steps=2", "eval.start_completions=2", "eval.greedy=true"]
    done = command_line(*few, *taught, "task.baselines=false", "output_dir=run", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "run"


def test_the_kl_to_the_teacher_is_measured_before_and_after_beside_the_teachers_own_figures(trained):
    found = json.loads((trained / "evaluation.json").read_text())
    before, after = (found[side]["kl_teacher"]["mean"]["value"] for side in ("baseline", "trained"))
    assert found["paired"]["kl_teacher"]["mean"]["value"] == pytest.approx(after - before) and before > 1
    assert "kl_teacher" not in found["teacher"] and found["teacher"]["n"] == 6
    assert found["teacher"]["kl"]["mean"]["value"] > 1 and "kl_teacher" not in found["trained"]["greedy"]
    samples = [json.loads(line) for line in (trained / "samples.jsonl").read_text().splitlines()]
    assert {one["which"] for one in samples} == {"baseline", "teacher", "trained"}
    assert all(("kl_teacher" in one) == (one["which"] != "teacher") for one in samples)


def test_the_report_has_the_teacher_beside_the_student_and_the_preflight_compares_them(trained):
    report = (trained / "report.md").read_text()
    assert "|  | baseline | trained | difference | teacher |" in report and "| KL to the teacher |" in report
    checks = json.loads((trained / "preflight.json").read_text())["checks"]
    [check] = [one for one in checks if one["name"] == "teacher_is_better"]
    assert check["status"] == "warned" and check["evidence"].startswith("on 6 rows the teacher's accuracy minus the")


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"7": None}, "has another vocabulary than the student: 223 tokens in 224 embeddings and 224 tokens in 224 "),
        (
            {"7": "seven"},
            "has another vocabulary than the student: 224 tokens in 224 embeddings and 224 tokens in 224 ",
        ),
        ("config.json", "has another vocabulary than the student: 224 tokens in 256 embeddings and 224 tokens in 224 "),
        ("scorer", "holds a reward model; must be a language model"),
        ("run", "a run that has saved no model; its run.json says how far it got"),
    ],
)
def test_a_teacher_that_cannot_teach_is_refused_without_its_weights(tmp_path, change, line):
    folder = tmp_path / "teacher"
    folder.mkdir()
    for file in (ASSETS / "tiny").glob("*.json"):
        (folder / file.name).write_bytes(file.read_bytes())
    if isinstance(change, dict):
        tokens = json.loads((folder / "tokenizer.json").read_text())
        [(old, new)] = change.items()
        place = tokens["model"]["vocab"].pop(old)
        tokens["model"]["vocab"] |= {new: place} if new else {}
        (folder / "tokenizer.json").write_text(json.dumps(tokens))
    elif change == "run":
        (folder / ".hydra").mkdir()
        (folder / ".hydra" / "config.yaml").write_text("seed: 0\n")
    else:
        config = json.loads((folder / "config.json").read_text())
        config |= {"vocab_size": 256} if change == "config.json" else {"architectures": ["XForSequenceClassification"]}
        (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ConfigError) as refused:
        build_experiment(tmp_path, *SMALL, f"teacher.path={folder}", rows=ROWS)
    [problem] = refused.value.problems
    assert problem.startswith(f"teacher.path={folder}: {line}")
