import math

import pytest
import torch
from datasets import Dataset
from trl import SFTConfig, SFTTrainer

from rlhf_exp.config.compose import compose_config
from rlhf_exp.evaluation.answers import Scored, compare_pair_loss, score_demonstrations, token_loss
from rlhf_exp.experiment import Experiment
from rlhf_exp.models.loading import load_tokenizer
from rlhf_exp.models.source import locate_start_model
from rlhf_exp.models.untrained import build_byte_tokenizer
from rlhf_exp.tasks import TaskRows, load_task
from rlhf_exp.tasks.countdown import split_of
from tests.building import build_random

ARGS = {"use_cpu": True, "bf16": False, "report_to": "none", "disable_tqdm": True, "completion_only_loss": True}
ROWS = [
    {"prompt": "2 + 2 =", "completion": " 4"},
    {"prompt": "Say it again:", "completion": " it, again and again"},
    {"prompt": "A very long question that fills the whole context", "completion": " no"},
]


@pytest.mark.parametrize("max_length", [None, 24])
def test_the_held_out_loss_is_that_of_the_sft_trainer_on_the_same_rows(max_length, tmp_path):
    tokenizer = build_byte_tokenizer()
    model = build_random("gpt2", tokenizer)
    args = SFTConfig(output_dir=str(tmp_path), max_length=max_length, per_device_train_batch_size=len(ROWS), **ARGS)
    trainer = SFTTrainer(model, args, train_dataset=Dataset.from_list(ROWS), processing_class=tokenizer)
    model.eval()
    batch = next(iter(trainer.get_train_dataloader()))
    with torch.no_grad():
        labels = batch["labels"] if "labels" in batch else None
        loss = model(**{name: batch[name] for name in ("input_ids", "attention_mask")}, labels=labels).loss.item()
    given = "null" if max_length is None else max_length
    cfg = compose_config(["algo=sft", f"algo.args.max_length={given}"])
    task = TaskRows("file", [], [], None, demonstrations=ROWS)
    scored = score_demonstrations(Experiment(cfg, None, None, tokenizer, task, []), model, title="loss")
    assert len(scored) == len(trainer.train_dataset) == (3 if max_length is None else 2)
    assert sum(row.tokens for row in scored) == sum(sum(label != -100 for label in row) for row in labels.tolist())
    assert token_loss(scored)["value"] == pytest.approx(loss, rel=1e-4)


def test_the_loss_weighs_tokens_alike_and_its_interval_counts_rows():
    rows = [Scored(2.0, 1), Scored(3.0, 3), Scored(1.0, 2)]
    found = token_loss(rows)
    assert found["value"] == pytest.approx(6 / 6)
    linear = [1 + (nats - tokens) / 2 for nats, tokens in rows]  # around the ratio 1, at 2 tokens a row
    spread = math.sqrt(sum((x - 1) ** 2 for x in linear) / 2 / 3)
    assert found["high"] - found["value"] == pytest.approx(4.302653 * spread, rel=1e-5)  # t, 2 degrees of freedom


def test_the_change_is_the_difference_of_the_two_losses():
    before, after = [Scored(2.0, 1), Scored(3.0, 3)], [Scored(1.5, 1), Scored(0.5, 3)]
    change = token_loss(after, before)
    assert change["value"] == pytest.approx(token_loss(after)["value"] - token_loss(before)["value"])
    assert token_loss(before, before) == {"value": 0.0, "low": 0.0, "high": 0.0}
    pairs = compare_pair_loss({"value": math.log(2) - 0.1, "low": math.log(2) - 0.2, "high": math.log(2)})
    assert list(pairs.values()) == pytest.approx([-0.1, -0.2, 0.0])  # that of pairs starts at ln 2


def test_held_out_traces_are_on_as_many_numbers_as_those_of_training_and_of_the_split_of_eval():
    cfg = compose_config(["algo=sft", "eval.rows=64", "task.train_rows=8", "task.traces.numbers=[2]"])
    task = load_task(cfg, load_tokenizer(locate_start_model(cfg)))
    prompts = [row["prompt"] for row in task.demonstrations]
    assert 0 < len(prompts) == len(set(prompts)) <= 64
    for prompt in prompts:
        numbers, target = prompt.removeprefix("use ").removesuffix(" .").split(" make ")
        assert len(numbers.split()) == 2
        assert split_of([int(n) for n in numbers.split()], int(target)) == cfg.eval.split
