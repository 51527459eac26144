"""Token for token the datasets that TRL's own trainers prepare; and the lengths of prompts and answers."""

from copy import deepcopy

import pytest
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer
from trl import DPOConfig, DPOTrainer, RewardConfig, RewardTrainer

from rlhf_exp.config import ROOT
from rlhf_exp.models.untrained import build_config
from rlhf_exp.tasks import as_completion
from rlhf_exp.tasks.hh_rlhf import parse_pair
from rlhf_exp.tasks.synthetic import generate_pairs
from rlhf_exp.tasks.task import Item
from rlhf_exp.tasks.tokens import encode_answers, encode_row, measure, render
from tests.tasks.building import CHAT_TEMPLATE, build_tokenizer, make_task

TOKENIZERS = ROOT.parent / "shared" / "data" / "tokenizers"
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


PAIRS = [parse_pair("", subset, None, *texts)[0] for subset, *texts in generate_pairs(60, seed=0)]


def list_texts(chat):
    """The prompts of the pairs, and their answers, in one form."""
    prompts = [make_task("hh_rlhf").write_prompt(Item(pair.id, {}, pair), chat) for pair in PAIRS]
    return prompts, [(as_completion(pair.chosen, chat), as_completion(pair.rejected, chat)) for pair in PAIRS]


def render_all(tokenizer, prompts, answers):
    """The prompts as the model reads them, and each with each of its answers."""
    wholes = [[prompt + answer for answer in several] for prompt, several in zip(prompts, answers, strict=True)]
    return render(tokenizer, prompts, ask=True), [render(tokenizer, several) for several in wholes]


def test_of_a_chat_pair_prompt_and_answer_sum_to_what_the_template_writes():
    """With a thought, so that the whole dialogue does not begin with the prompt."""
    tokenizer, texts = build_tokenizer(CHAT_TEMPLATE.replace("<assistant>", "<assistant>(hm)")), list_texts(chat=True)
    prompts, wholes = render_all(tokenizer, *texts)
    for (prompt, answers), alone, both in zip(measure(tokenizer, *texts), prompts, wholes, strict=True):
        assert prompt == len(alone)
        assert [prompt + answer for answer in answers] == [len(whole) for whole in both]


@pytest.mark.parametrize(("name", "chat"), [("gpt2", False), ("qwen3", True), ("qwen3", False)])
def test_real_tokenizers_count_as_they_tokenize_the_whole_text(name, chat):
    tokenizer, texts = load(name), list_texts(chat)
    prompts, wholes = render_all(tokenizer, *texts)
    for (prompt, answers), alone, both in zip(measure(tokenizer, *texts), prompts, wholes, strict=True):
        assert prompt == len(tokenizer(alone)["input_ids"])
        assert [prompt + n for n in answers] == [len(tokenizer(whole)["input_ids"]) + (not chat) for whole in both]
