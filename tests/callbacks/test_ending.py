"""A run on given rows whose loss cannot change any weight ends with one line; no other run does."""

import json

import pytest

from rlhf_exp.callbacks.ending import CheckGradients
from rlhf_exp.errors import NoGradient
from tests import building

DPO = [*building.QUIET, "max_tokens=8", "reward=outcome", "algo=dpo", "algo.args.max_steps=2"]
PAIRS = [
    {"id": str(i), "prompt": f"use {i} 7 3 make 53 .", "chosen": "7 * 3", "rejected": "7 + 3"} for i in range(1, 9)
]
LOST = "+algo.args.max_grad_norm=1e-300"  # clipped gradients underflow to 0, which no check of the config foresees


def build(folder, *overrides):
    """A trainer with the callback, and the callback."""
    trainer, check = building.build(folder, *DPO, *overrides, rows=PAIRS), CheckGradients()
    trainer.add_callback(check)
    return trainer, check


@pytest.mark.slow
def test_a_run_that_cannot_learn_fails_with_one_line_and_a_readable_folder(tmp_path, command_line):
    done = command_line(
        *("algo=sft", "device=cpu", "device.threads=1", "algo.args.max_steps=30", "algo.args.save_strategy=no", LOST),
        *("algo.args.per_device_train_batch_size=2", "algo.args.logging_steps=1", "algo.args.warmup_steps=20"),
        *("max_tokens=16", "eval.rows=4", "eval.cache_dir=null", "output_dir=run"),
        cwd=tmp_path,
    )
    line = done.stderr.splitlines()[-1]
    assert done.returncode == 1, done.stderr
    assert line.startswith("rlhf_exp: failed: NoGradient: ") and "in 10 steps" in line
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "failed"
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 9
    assert command_line("report", "run", cwd=tmp_path).returncode == 0


def test_a_short_run_without_a_gradient_fails_at_its_end(tmp_path):
    trainer, _ = build(tmp_path, LOST)
    with pytest.raises(NoGradient, match="in 2 steps"):
        trainer.train()


def test_a_healthy_run_is_looked_at_only_until_its_first_gradient_and_a_resumed_one_not_at_all(tmp_path):
    saved = ["algo.args.save_strategy=steps", "algo.args.save_steps=1", "algo.args.save_total_limit=2"]
    trainer, check = build(tmp_path, "peft=lora", *saved)
    trainer.train()
    assert (check._is_looking, check._steps) == (False, 1)
    trainer, check = build(tmp_path, "peft=lora", *saved, LOST)
    trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoints" / "checkpoint-1"))
    assert (check._is_looking, check._steps) == (False, 0)
