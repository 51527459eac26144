"""Token for token the datasets that TRL's own trainers prepare."""

from copy import deepcopy
from pathlib import Path

import pytest
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer
from trl import DPOConfig, DPOTrainer, RewardConfig, RewardTrainer

from rlhf_exp.models.untrained import build_config
from rlhf_exp.tasks.tokens import encode_answers, encode_row
from tests.tasks.building import build_tokenizer

TOKENIZERS = Path(__file__).parents[3] / "shared" / "data" / "tokenizers"
INIT = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 256}
ARGS = {"use_cpu": True, "bf16": False, "report_to": "none", "disable_tqdm": True, "max_length": None}

PLAIN = [
    {"prompt": "\n\nHuman: Hi!\n\nAssistant:", "chosen": " Hello, friend.", "rejected": " What?"},
    {"prompt": "\n\nHuman: 2 + 2\n\nAssistant:", "chosen": " 4", "rejected": ""},
    {"prompt": "a", "chosen": "b", "rejected": "b<eos>"},  # an end that is there is not added again
    {"prompt": "An un", "chosen": "believable story", "rejected": "dotted line"},  # tokens merge across the prompt
]


def chat(text):
    return [{"role": "assistant", "content": text}]


CHAT = [
    {"prompt": [{"role": "user", "content": "Hi!"}], "chosen": chat("Hello, friend."), "rejected": chat("What?")},
    {
        "prompt": [
            {"role": "user", "content": "2 + 2"},
            {"role": "assistant", "content": "<think>\nsum\n</think>\n\n4"},
            {"role": "user", "content": "And 3 + 3?"},
        ],
        "chosen": chat("<think>\nsix\n</think>\n\n6"),
        "rejected": chat("5"),
    },
]


def load(name):
    if name == "bytes":
        return build_tokenizer()
    if not TOKENIZERS.is_dir():
        pytest.skip("needs ../shared/data/tokenizers")
    tokenizer = AutoTokenizer.from_pretrained(TOKENIZERS / name)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


CASES = [("bytes", "gpt2", PLAIN), ("gpt2", "gpt2", PLAIN), ("qwen3", "qwen3", PLAIN), ("qwen3", "qwen3", CHAT),
         ("qwen2", "qwen2", CHAT)]  # fmt: skip
CASES = [pytest.param(*case, id=f"{case[0]}-{'plain' if case[2] is PLAIN else 'chat'}") for case in CASES]


@pytest.mark.parametrize(("name", "architecture", "rows"), CASES)
def test_answers_are_the_tokens_of_the_reward_trainer(name, architecture, rows, tmp_path):
    tokenizer = load(name)
    config = build_config({"architecture": architecture, **INIT}, tokenizer)
    config.num_labels = 1
    model = AutoModelForSequenceClassification.from_config(config)
    args = RewardConfig(output_dir=str(tmp_path), **ARGS)
    trainer = RewardTrainer(model, args, train_dataset=Dataset.from_list(rows), processing_class=tokenizer)
    for answer in ("chosen", "rejected"):
        ours = encode_answers(tokenizer, [row["prompt"] for row in rows], [row[answer] for row in rows])
        assert ours == list(trainer.train_dataset[f"{answer}_ids"])


@pytest.mark.parametrize(("name", "architecture", "rows"), CASES)
def test_pairs_are_the_tokens_of_the_dpo_trainer(name, architecture, rows, tmp_path):
    tokenizer = load(name)
    model = AutoModelForCausalLM.from_config(build_config({"architecture": architecture, **INIT}, tokenizer))
    args = DPOConfig(output_dir=str(tmp_path), **ARGS)
    trainer = DPOTrainer(
        model, ref_model=deepcopy(model), args=args, train_dataset=Dataset.from_list(rows), processing_class=tokenizer
    )
    names = ("prompt", "chosen", "rejected")
    ours = [encode_row(tokenizer, *(row[name] for name in names)) for row in rows]
    assert ours == list(zip(*(trainer.train_dataset[f"{name}_ids"] for name in names), strict=True))


def test_tokens_that_merge_across_the_prompt_belong_to_the_answer():
    tokenizer = load("gpt2")
    prompt, _, rejected = encode_row(tokenizer, *PLAIN[-1].values())
    assert tokenizer.decode(prompt) == "An"
    assert tokenizer.decode(rejected) == " undotted line<|endoftext|>"
