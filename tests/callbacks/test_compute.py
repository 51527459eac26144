"""What training counts, against TRL's own counts and those of the rows."""

import json

import pytest
import torch
from transformers import DynamicCache, TrainerCallback

from rlhf_exp.callbacks.compute import ComputeMeter
from rlhf_exp.callbacks.metrics import MetricsWriter
from rlhf_exp.models.generation import CACHE, CACHE_NAMES
from rlhf_exp.runs.folder import RunFolder
from rlhf_exp.train import KeepRecord
from tests.building import QUIET, ROLLOUTS_OF_8, build

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
        "decode_passes": completion_tokens,
    }
    assert meter.counts["step_seconds"] > 0


@pytest.mark.parametrize("generation", ["trl", "compact"])
def test_an_adapter_changes_no_count_however_it_samples(tmp_path, generation):
    counts = []
    for name, peft in (("plain", "peft=none"), ("lora", "peft=lora")):
        overrides = [*GRPO, "algo.args.max_steps=1", "algo.args.beta=0", f"generation={generation}"]
        meter, _ = train(tmp_path / name, *overrides, peft)
        counts.append(without_time(meter.counts))
        assert meter.count_tokens()["tokens"] == read_metrics(tmp_path / name)[-1]["num_tokens"]
    assert counts[0] == counts[1] and counts[0]["completions"] == 8 and counts[0]["decode_passes"] > 8


@pytest.mark.parametrize("name", CACHE_NAMES)
def test_decoding_counts_whichever_name_transformers_gives_the_cache(tmp_path, name):
    meter, trainer = train(tmp_path, *GRPO, "algo.args.max_steps=1")
    before, cache = dict(meter.counts), DynamicCache(config=trainer.model.config)
    for tokens in (torch.tensor([[5, 6], [7, 8]]), torch.tensor([[9], [9]])):  # two prompts, and a token of each
        meter.on_step_begin()
        with torch.no_grad():
            trainer.model(tokens, use_cache=True, **{name: cache})
        meter.on_optimizer_step(trainer.args, trainer.state, trainer.control, optimizer=trainer.optimizer)
        meter.on_step_end(trainer.args, trainer.state, trainer.control)
        if not cache.get_seq_length():  # this transformers ignores the other name
            trainer.model(torch.tensor([[5, 6], [7, 8]]), use_cache=True, **{CACHE: cache})  # between steps
    counted = {key: n - before[key] for key, n in without_time(meter.counts).items() if n != before[key]}
    assert counted == {"decode_passes": 4, "completions": 2}


def test_accumulation_changes_no_count_and_a_second_epoch_trains_on_the_same_tokens_again(tmp_path):
    whole, _ = train(tmp_path / "a", *GRPO, "algo.args.max_steps=1", "algo.args.beta=0")
    parts, _ = train(
        tmp_path / "b", *GRPO, "algo.args.max_steps=1", "algo.args.beta=0",
        "algo.args.per_device_train_batch_size=4", "algo.args.gradient_accumulation_steps=2",
    )  # fmt: skip
    twice, _ = train(tmp_path / "c", *GRPO, "algo.args.max_steps=2", "algo.args.beta=0", "algo.args.num_iterations=2")
    assert without_time(parts.counts) == without_time(whole.counts)
    assert whole.counts["reference_passes"] == 0
    assert twice.counts["trained_tokens"] == 2 * whole.counts["trained_tokens"]
    assert twice.counts["completions"] == whole.counts["completions"] == 8
    assert twice.counts["score_passes"] == 8  # the policy that sampled is scored once for the second epoch


def test_training_ends_with_the_step_that_reaches_the_tokens(tmp_path):
    meter, trainer = train(tmp_path, *GRPO, "algo.args.max_steps=10", train_tokens=200)
    counted = [row["trained_tokens"] for row in read_metrics(tmp_path)]
    assert trainer.state.global_step == len(counted) < 10
    assert counted[-2] < 200 <= counted[-1] == meter.counts["trained_tokens"]


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


def test_a_resumed_run_continues_to_count_from_its_checkpoint(tmp_path):
    saved = ["algo.args.save_strategy=steps", "algo.args.save_steps=1", "algo.args.save_total_limit=null"]
    saved.append("algo.args.max_steps=2")
    meter, _ = train(tmp_path, *GRPO, *saved)
    first = tmp_path / "checkpoints" / "checkpoint-1"
    resumed, _ = train(tmp_path, *GRPO, *saved, resume=str(first))
    assert without_time(resumed.counts) == without_time(meter.counts)


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
    ("algo", "sides"), [("sft", ["completion"]), *((algo, ["chosen", "rejected"]) for algo in ("dpo", "reward_model"))]
)
def test_given_rows_count_by_their_tokens_and_both_sides_of_a_pair(tmp_path, algo, sides):
    rows = [
        {"id": str(i), "prompt": "use 8 7 3 make 53 ."} | {side: f" 8 * {i}" + " 7" * k for k, side in enumerate(sides)}
        for i in range(2, 6)
    ]
    meter, trainer = train(
        tmp_path, f"algo={algo}", "algo.args.max_steps=2", "algo.args.per_device_train_batch_size=2", rows=rows
    )
    tokenizer = trainer.processing_class
    texts = [row["prompt"] + row[side] for row in rows for side in sides]
    tokens = sum(len(tokenizer(text)["input_ids"]) + 1 for text in texts)  # each ends with an end token
    assert meter.counts["trained_tokens"] == tokens
    assert meter.counts["train_passes"] == len(texts)
    assert meter.counts["completions"] == meter.counts["decode_passes"] == 0
    assert meter.count_tokens() == {"tokens": tokens, "prompt_tokens": tokens, "completion_tokens": 0}
    assert read_metrics(tmp_path)[-1]["num_tokens"] == tokens


@pytest.mark.parametrize(("loss_type", "scored"), [("kto", 4), ("apo_zero_unpaired", 0)])
def test_kto_also_scores_each_prompt_with_the_answer_of_another_row(tmp_path, loss_type, scored):
    rows = [
        {"id": str(i), "prompt": "use 8 7 3 make 53 .", "completion": f" 8 * {i}", "label": i % 2 == 0}
        for i in range(2, 6)
    ]
    meter, _ = train(
        tmp_path, "algo=kto", f"algo.args.loss_type={loss_type}", "algo.args.max_steps=2",
        "algo.args.per_device_train_batch_size=2", rows=rows,
    )  # fmt: skip
    assert (meter.counts["train_passes"], meter.counts["score_passes"]) == (4, scored)
    assert meter.counts["trained_tokens"] == read_metrics(tmp_path)[-1]["num_tokens"]


@pytest.mark.parametrize(("critic", "passes"), [("shared", 0), ("separate", 24)])
def test_a_critic_of_its_own_has_passes_and_one_on_the_policys_states_has_none(tmp_path, critic, passes):
    meter, _ = train(
        tmp_path, "algo=ppo", f"algo.critic={critic}", "algo.args.per_device_train_batch_size=4",
        "algo.args.steps_per_generation=2", "algo.args.num_iterations=2", "algo.args.max_steps=4",
    )  # fmt: skip
    assert meter.counts["completions"] == 8
    logged = [row["num_tokens"] for row in read_metrics(tmp_path) if "num_tokens" in row]  # of the steps that sampled
    assert meter.count_tokens()["tokens"] == max(logged) < meter.counts["trained_tokens"]
    assert meter.counts["train_passes"] == 16
    assert meter.counts["critic_passes"] == passes  # once when it values the rollout, then once an epoch
