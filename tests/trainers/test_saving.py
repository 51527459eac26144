"""Every trainer saves whole checkpoints, and a signal asks for one."""

import json
from pathlib import Path

import pytest
import torch
from transformers import TrainerCallback
from transformers.trainer_pt_utils import safe_globals

from rlhf_exp.callbacks.compute import ComputeMeter
from rlhf_exp.errors import ConfigError
from rlhf_exp.runs.checkpoints import find_checkpoint
from tests.building import QUIET, UNTRAINED, build, reward_length_of_7

SMALL = [
    *UNTRAINED, *QUIET, "reward=outcome", "max_tokens=8", "algo.args.per_device_train_batch_size=4",
    "algo.args.save_strategy=steps", "algo.args.save_steps=1", "algo.args.save_total_limit=1", "algo.args.max_steps=2",
]  # fmt: skip
PPO = ["algo=ppo", "algo.args.steps_per_generation=1", "algo.args.num_iterations=1"]
ROWS = [{"id": str(i), "prompt": f"use {i} 7 3 make 53 .", "completion": " 8", "chosen": " 8", "rejected": " 7"}
        for i in range(1, 17)]  # fmt: skip


class Touch:
    """A pickle that makes a file when it is read by code that trusts it."""

    def __reduce__(self):
        return Path.touch, (Path("touched"),)


def make(folder, *overrides):
    trainer = build(folder, *SMALL, *overrides, rows=ROWS, reward=reward_length_of_7)
    ComputeMeter(None).watch(trainer)
    return trainer


def names(folder):
    return sorted(path.name for path in (folder / "checkpoints").iterdir() if path.is_dir())


@pytest.mark.parametrize("algo", [["algo=sft"], PPO])
def test_every_trainer_saves_a_whole_checkpoint_before_it_removes_the_last(tmp_path, algo):
    seen = []

    class Watch(TrainerCallback):
        def on_save(self, args, state, control, **kwargs):
            seen.append((state.global_step, names(tmp_path)))

    trainer = make(tmp_path, *algo)
    trainer.add_callback(Watch())
    trainer.train()
    assert seen == [(1, ["checkpoint-1"]), (2, ["checkpoint-2"])]
    last = find_checkpoint(tmp_path).path
    assert last.name == "checkpoint-2"
    files = json.loads((last / "manifest.json").read_text())["files"]
    assert {"model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json"} <= set(files)
    assert "work.json" in files
    assert "training_args.bin" not in files and not (tmp_path / "checkpoints" / "README.md").exists()
    for pickled in last.rglob("*.pt*"):  # torch has no other format for them: readable without running code
        with safe_globals():  # of numpy, for its random state
            torch.load(pickled, weights_only=True)
    assert json.loads((last / "work.json").read_text())["train_passes"] >= 8


@pytest.mark.parametrize(
    ("name", "content"), [("optimizer.pt", Touch()), ("scheduler.pt", None), ("rng_state.pth", Touch())]
)
def test_a_checkpoint_that_holds_code_or_nonsense_is_refused_in_a_line_that_does_not_advise_to_run_it(
    tmp_path, monkeypatch, name, content
):
    make(tmp_path, "algo=sft").train()
    last = tmp_path / "checkpoints" / "checkpoint-2"
    torch.save(content, last / name) if content else (last / name).write_bytes(b"\x80\x04nonsense")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=f"^{last}: .*{name}.*holds more than numbers, such as code, or is damaged"):
        make(tmp_path, "algo=sft", "algo.args.max_steps=3").train(resume_from_checkpoint=str(last))
    assert not Path("touched").exists()


def test_weights_that_are_not_finite_never_replace_the_last_good_checkpoint(tmp_path, capsys):
    trainer = make(tmp_path, "algo=sft", "algo.args.max_steps=3")

    class Spoil(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            if state.global_step == 2:
                next(trainer.model.parameters()).data[0, 0] = float("nan")

    trainer.add_callback(Spoil())
    trainer.train()
    assert names(tmp_path) == ["checkpoint-1"]
    assert "rlhf_exp: checkpoint-2 is not written: the weights are not finite\n" in capsys.readouterr().err
