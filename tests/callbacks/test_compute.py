"""What training counts, against TRL's own counts and those of the rows."""

import json

import pytest
from transformers import TrainerCallback

from rlhf_exp.callbacks.compute import ComputeMeter
from rlhf_exp.callbacks.metrics import MetricsWriter
from rlhf_exp.runs.folder import RunFolder
from rlhf_exp.train import KeepRecord
from tests.building import DISTILL_8, QUIET, ROLLOUTS_OF_8, build

SMALL = [*QUIET, "max_tokens=8", "algo.args.logging_steps=1"]
GRPO = ["algo=grpo", "algo.args.per_device_train_batch_size=8", "algo.args.num_generations=4"]
PROMPTS = [{"id": str(i), "prompt": f"use {i} 7 3 make 53 ."} for i in range(1, 9)]


def random_reward(completions, **columns):
    return [len(text) % 3 / 2 for text in completions]


def train(folder, *overrides, rows=PROMPTS, train_tokens=None, resume=None):
    """The meter and the trainer of a finished training."""
    trainer = build(folder, "reward=outcome", *SMALL, *overrides, rows=rows, reward=random_reward)
    trainer.callback_handler.callbacks.insert(0, MetricsWriter(folder, None, every_steps=1))
    meter = ComputeMeter(train_tokens)
    meter.watch(trainer)
    trainer.train(resume_from_checkpoint=resume)
    return meter, trainer


def read_metrics(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def without_time(counts):
    return {name: n for name, n in counts.items() if name != "step_seconds"}


def test_grpo_counts_what_it_sampled_scored_and_trained_on_and_nothing_between_steps(tmp_path):
    meter, trainer = train(tmp_path, *GRPO, "algo.args.max_steps=2")
    trainer.model(input_ids=trainer.model.dummy_inputs["input_ids"])
    logs = read_metrics(tmp_path)
    completion_tokens = round(sum(8 * row["completions/mean_length"] for row in logs))
    assert [row["trained_tokens"] for row in logs] == [row["num_tokens"] for row in logs]
    assert without_time(meter.counts) == {
        "trained_tokens": logs[-1]["num_tokens"],
        "prompt_tokens": logs[-1]["num_tokens"] - completion_tokens,
        "completion_tokens": completion_tokens,
        "train_passes": 16,
        "score_passes": 0,
        "reference_passes": 16,
        "critic_passes": 0,
        "completions": 16,
        "decode_passes": completion_tokens - 16,
    }
    assert meter.counts["step_seconds"] > 0


def test_an_adapter_accumulation_and_trls_sampling_change_no_count(tmp_path):
    one = [*GRPO, "algo.args.max_steps=1", "algo.args.beta=0"]
    parts = ["algo.args.per_device_train_batch_size=4", "algo.args.gradient_accumulation_steps=2"]
    counts = []
    for i, overrides in enumerate(([], ["peft=lora"], parts, ["peft=lora", "generation=trl"])):
        meter, _ = train(tmp_path / f"{i}", *one, *overrides)
        counts.append(without_time(meter.counts))
        assert meter.count_tokens()["tokens"] == read_metrics(tmp_path / f"{i}")[-1]["num_tokens"]
    assert counts[0] == counts[1] == counts[2] and counts[0]["completions"] == 8 and counts[0]["reference_passes"] == 0
    assert counts[3] | {"decode_passes": 0} == counts[0] | {"decode_passes": 0} and counts[3]["decode_passes"] > 8


@pytest.mark.parametrize("peft", ["none", "lora"])
def test_distill_counts_the_passes_of_backbones_that_trl_calls_itself(tmp_path, peft):
    meter, _ = train(tmp_path, *DISTILL_8, f"peft={peft}", "algo.args.max_steps=2")
    tokens = read_metrics(tmp_path)[-1]["num_tokens"]
    counts = {
        "trained_tokens": tokens,
        "train_passes": 16,
        "reference_passes": 16,
        "score_passes": 0,
        "completions": 16,
    }
    assert {name: meter.counts[name] for name in counts} == counts
    assert meter.count_tokens()["tokens"] == tokens
    assert meter.counts["decode_passes"] == meter.counts["completion_tokens"] - 16


def test_a_second_epoch_trains_on_the_same_tokens_again_also_in_a_run_that_is_resumed(tmp_path):
    twice = [*GRPO, "algo.args.max_steps=4", "algo.args.num_iterations=2", "algo.args.save_strategy=steps"]
    twice += ["algo.args.save_steps=2", "algo.args.save_total_limit=null"]
    meter, _ = train(tmp_path, *twice)
    tokens = [row["trained_tokens"] for row in read_metrics(tmp_path)]
    assert tokens[1] == 2 * tokens[0] and meter.counts["trained_tokens"] == tokens[3]
    assert meter.counts["completions"] == 16 == meter.counts["score_passes"]  # the policy that sampled is scored once
    resumed, _ = train(tmp_path, *twice, resume=str(tmp_path / "checkpoints" / "checkpoint-2"))
    assert without_time(resumed.counts) == without_time(meter.counts)


GIVEN = [
    {"id": str(i), "prompt": "use 8 7 3 make 53 .", "completion": f" 8 * {i}", "label": i % 2 == 0}
    | {"chosen": f" 8 * {i}", "rejected": f" 8 * {i} 7"}
    for i in range(2, 10)
]


@pytest.mark.parametrize("algo", ["sft", "grpo", "ppo"])
def test_the_rate_warms_up_and_falls_by_the_share_of_the_tokens(tmp_path, algo):
    """Of 100 steps of the schedule 6 to 14 are taken; by steps most would be in the warm-up."""
    overrides = ROLLOUTS_OF_8.get(algo, [f"algo={algo}", "algo.args.per_device_train_batch_size=4"])
    schedule = ["algo.args.learning_rate=1e-3", "++algo.args.warmup_steps=10", "algo.args.max_steps=100"]
    rows, budget = GIVEN if algo not in ROLLOUTS_OF_8 else PROMPTS, 600
    meter, trainer = train(tmp_path, *overrides, *schedule, rows=rows, train_tokens=budget)
    logged = read_metrics(tmp_path)
    places = [100 * tokens / budget for tokens in (0, *(row["trained_tokens"] for row in logged[:-1]))]
    expected = [1e-3 * min(place / 10, (100 - place) / 90) for place in places]
    assert [row["learning_rate"] for row in logged] == pytest.approx(expected)
    assert 3 < trainer.state.global_step < 15 and expected[-1] < 4e-4
    assert logged[-2]["trained_tokens"] < budget <= logged[-1]["trained_tokens"] == meter.counts["trained_tokens"]


def test_run_json_always_says_how_far_training_has_come(tmp_path):
    class Look(TrainerCallback):
        def on_step_begin(self, args, state, control, **kwargs):
            record = json.loads((tmp_path / "run.json").read_text())
            seen.append((record["steps"], record["prompt_tokens"], record["seconds"]["train"] > 0))

    seen, folder = [], RunFolder.create(tmp_path, {})
    saved = ["algo.args.save_strategy=steps", "algo.args.save_steps=1", "algo.args.max_steps=3"]
    trainer = build(tmp_path, "reward=outcome", *SMALL, *GRPO, *saved, "algo.args.logging_steps=2", rows=PROMPTS,
                    reward=random_reward)  # fmt: skip
    meter = ComputeMeter()
    for callback in (KeepRecord(folder, meter), Look()):
        trainer.add_callback(callback)
    meter.watch(trainer)
    with folder.phase("train"):
        folder.save()
        trainer.train()
    assert [step for step, _, _ in seen] == [0, 1, 2] and seen[2][1] > seen[1][1] > 0 and seen[2][2]


@pytest.mark.parametrize(
    ("overrides", "sides", "scored"),
    [
        (["algo=sft"], ["completion"], 0),
        (["algo=dpo"], ["chosen", "rejected"], 0),
        (["algo=reward_model"], ["chosen", "rejected"], 0),
        (["algo=kto"], ["completion"], 4),  # each prompt also with the answer of another row
        (["algo=kto", "algo.args.loss_type=apo_zero_unpaired"], ["completion"], 0),
    ],
)
def test_given_rows_count_by_their_tokens_and_both_sides_of_a_pair(tmp_path, overrides, sides, scored):
    two_steps = ["algo.args.max_steps=2", "algo.args.per_device_train_batch_size=2"]
    meter, trainer = train(tmp_path, *overrides, *two_steps, rows=GIVEN[:4])
    texts = [row["prompt"] + row[side] for row in GIVEN[:4] for side in sides]
    tokens = sum(len(ids) + 1 for ids in trainer.processing_class(texts)["input_ids"])  # each ends with an end token
    passes = {"train_passes": len(texts), "score_passes": scored, "completions": 0, "decode_passes": 0}
    assert meter.counts["trained_tokens"] == tokens == read_metrics(tmp_path)[-1]["num_tokens"]
    assert {name: meter.counts[name] for name in passes} == passes
    assert meter.count_tokens() == {"tokens": tokens, "prompt_tokens": tokens, "completion_tokens": 0}


@pytest.mark.parametrize(("critic", "passes"), [("shared", 0), ("separate", 24)])
def test_a_critic_of_its_own_has_passes_and_one_on_the_policys_states_has_none(tmp_path, critic, passes):
    meter, _ = train(
        tmp_path, "algo=ppo", f"algo.args.critic={critic}", "algo.args.per_device_train_batch_size=4",
        "algo.args.steps_per_generation=2", "algo.args.num_iterations=2", "algo.args.max_steps=4",
    )  # fmt: skip
    logged = [row["num_tokens"] for row in read_metrics(tmp_path) if "num_tokens" in row]  # of the steps that sampled
    assert meter.count_tokens()["tokens"] == max(logged) < meter.counts["trained_tokens"]
    assert (meter.counts["completions"], meter.counts["train_passes"]) == (8, 16)
    assert meter.counts["critic_passes"] == passes  # once when it values the rollout, then once an epoch
