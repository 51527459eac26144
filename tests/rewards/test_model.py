import json
from dataclasses import asdict, replace

import pytest
import torch
from omegaconf import OmegaConf
from transformers import AutoModelForSequenceClassification

from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.model_shape import ASSETS
from rlhf_exp.errors import ConfigError
from rlhf_exp.evaluation.answers import score_pairs
from rlhf_exp.experiment import Experiment
from rlhf_exp.models.untrained import build_config, build_trace_tokenizer
from rlhf_exp.rewards import build_rewards
from rlhf_exp.tasks import TaskRows
from tests.tasks.building import build_tokenizer

INIT = {"architecture": "gpt2", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
        "max_position_embeddings": 64, "initializer_range": 0.3}  # fmt: skip
TRAINING = compose_config(["algo=reward_model", "task=hh_rlhf", "reward=none"])
USE = compose_config(
    ["algo=grpo", "task=hh_rlhf", "reward=model", f"reward.path={ASSETS / 'tiny'}", "reward.batch_size=3"]
)
TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<eos>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
PAIRS = [
    {"id": "0", "subset": "a", "prompt": "Human: Hi!\n\nAssistant:", "chosen": " Hello, friend.", "rejected": " No"},
    {"id": "1", "subset": "a", "prompt": "Human: why?\n\nAssistant:", "chosen": " So.", "rejected": " Because it is"},
]
CHAT_PAIRS = [
    {**pair, "prompt": [{"role": "user", "content": pair["prompt"][7:-12]}],
     **{key: [{"role": "assistant", "content": pair[key].strip()}] for key in ("chosen", "rejected")}}
    for pair in PAIRS
]  # fmt: skip


def make_tokenizer(chat=False):
    return build_tokenizer(TEMPLATE if chat else None)


def make_run(path, tokenizer, prompt="auto"):
    """The folder that a run of algo=reward_model leaves."""
    torch.manual_seed(0)
    config = build_config(INIT, tokenizer)
    config.num_labels = 1
    AutoModelForSequenceClassification.from_config(config).save_pretrained(path / "model")
    tokenizer.save_pretrained(path / "model")
    (path / ".hydra").mkdir()
    config = OmegaConf.create(asdict(TRAINING))
    config.task.prompt = prompt
    OmegaConf.save(config, path / ".hydra" / "config.yaml")
    return path


def build(run, pairs, normalize=False):
    cfg = replace(USE, reward=replace(USE.reward, path=str(run), normalize=normalize))
    rows = [{"id": pair["id"], "prompt": pair["prompt"]} for pair in pairs]
    return build_rewards(cfg, TaskRows("hh_rlhf", rows, rows, None))[0]


@pytest.mark.parametrize("pairs", [PAIRS, CHAT_PAIRS], ids=["plain", "chat"])
def test_the_reward_of_a_training_pair_is_its_score_in_training(pairs, tmp_path):
    """That those scores are TRL's: tests/evaluation/test_answers.py."""
    tokenizer = make_tokenizer(chat=pairs is CHAT_PAIRS)
    run = make_run(tmp_path / "run", tokenizer)
    model = build(run, pairs)
    assert model.__name__ == "model"
    prompts = [pair["prompt"] for pair in pairs]
    rewards = [model(prompts=prompts, completions=[pair[key] for pair in pairs]) for key in ("chosen", "rejected")]

    scorer = AutoModelForSequenceClassification.from_pretrained(run / "model")
    task = TaskRows("hh_rlhf", [], [], None, pairs=pairs)
    scores = score_pairs(Experiment(TRAINING, None, None, tokenizer, task, []), scorer)
    assert list(zip(*rewards, strict=True)) == [pytest.approx(pair, abs=1e-5) for pair in scores]


def test_a_completion_gets_the_space_that_its_tokenizer_lost(tmp_path):
    model = build(make_run(tmp_path / "run", make_tokenizer()), PAIRS)
    prompts = ["Human: Hi!\n\nAssistant:"] * 3
    spaced, bare, on_a_line = model(prompts=prompts, completions=[" Hello", "Hello", "\nHello"])
    assert spaced == pytest.approx(bare, abs=1e-6)
    assert abs(spaced - on_a_line) > 1e-3


def test_normalised_rewards_are_in_deviations_of_the_held_out_ones(tmp_path):
    run = make_run(tmp_path / "run", make_tokenizer())
    reward = {"mean": {"value": 3.0, "low": 2.0, "high": 4.0}, "std": 0.5}
    (run / "evaluation.json").write_text(json.dumps({"baseline": {}, "trained": {"reward": reward}}))
    columns = {"prompts": [PAIRS[0]["prompt"]], "completions": [" Hello"]}
    raw, normalised = (build(run, PAIRS, normalize)(**columns)[0] for normalize in (False, True))
    assert normalised == pytest.approx((raw - 3.0) / 0.5)


def test_a_text_longer_than_the_context_is_cut_and_counted(tmp_path):
    model = build(make_run(tmp_path / "run", make_tokenizer()), PAIRS)
    logged = {}
    columns = {"prompts": ["p"] * 4, "completions": [" " + "a" * 80, " " + "a" * 80 + "b", " " + "a" * 61, " b"]}
    scores = model(log_metric=logged.__setitem__, **columns)
    assert logged == {"reward_model/cut": 0.5}
    assert scores[0] == pytest.approx(scores[1], abs=1e-6)
    assert abs(scores[0] - scores[2]) > 1e-3  # 63 tokens and an end


def test_prompts_that_the_reward_model_does_not_read_are_refused(tmp_path):
    runs = {name: make_run(tmp_path / name, make_tokenizer(chat=name != "plain"), prompt)
            for name, prompt in (("plain", "auto"), ("chat", "auto"), ("both", "plain"))}  # fmt: skip
    runs["words"] = make_run(tmp_path / "words", build_trace_tokenizer())
    apples = [{"id": "0", "prompt": "use 3 apples make apples ."}]
    for name, rows, problem in (
        ("plain", CHAT_PAIRS, "reads plain text"), ("chat", PAIRS, "reads messages"), ("words", apples, "1 words of"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=f"^reward.path={runs[name]}: {problem}"):
            build(runs[name], rows)
    build(runs["both"], PAIRS)
    build(runs["chat"] / "model", PAIRS)  # no run that tells
