import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from rlhf_exp.config import ROOT
from rlhf_exp.tasks.hh_rlhf.files import RawPair
from rlhf_exp.tasks.hh_rlhf.lengths import measure, render
from rlhf_exp.tasks.hh_rlhf.pairs import parse_pair
from rlhf_exp.tasks.hh_rlhf.written import write_pairs

REAL = ROOT.parent / "shared" / "data" / "tokenizers"
CHATML = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>THINK{% endif %}"
)
PAIRS = [parse_pair(RawPair("", subset, None, *texts))[0] for subset, *texts in write_pairs(60, seed=0)]


def build_byte_tokenizer(chat_template=None):
    vocab = {symbol: i for i, symbol in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, chat_template=chat_template, model_max_length=512)


def test_a_plain_pair_counts_prompt_longer_answer_and_end_token():
    for pair, (prompt, longer) in zip(PAIRS, measure(PAIRS, build_byte_tokenizer(), chat=False), strict=True):
        assert prompt == len(pair.prompt)
        assert longer == len(pair.prompt) + 1 + max(len(pair.chosen), len(pair.rejected)) + 1


@pytest.mark.parametrize("think", ["", "(hm)"])  # with a thought the whole dialogue does not begin with the prompt
def test_a_chat_pair_counts_what_the_template_writes(think):
    tokenizer = build_byte_tokenizer(CHATML.replace("THINK", think))
    prompts, chosen, rejected = render(PAIRS[:3], tokenizer, chat=True)
    question = PAIRS[0].history[0][1]
    assert prompts[0] == f"<user>{question}</s><assistant>{think}"
    assert chosen[0] == f"<user>{question}</s><assistant>{PAIRS[0].chosen}</s>"
    assert rejected[0] == f"<user>{question}</s><assistant>{PAIRS[0].rejected}</s>"
    assert measure(PAIRS[:3], tokenizer, chat=True) == [
        (len(prompt), max(len(one), len(other))) for prompt, one, other in zip(prompts, chosen, rejected, strict=True)
    ]


def test_prompts_alone_are_measured_without_answers():
    tokenizer = build_byte_tokenizer()
    assert measure(PAIRS, tokenizer, chat=False, answers=False) == [(len(pair.prompt), 0) for pair in PAIRS]


@pytest.mark.parametrize(("name", "chat"), [("gpt2", False), ("qwen3", True), ("qwen3", False)])
def test_real_tokenizers_count_as_they_tokenize_the_whole_text(name, chat):
    if not (REAL / name).is_dir():
        pytest.skip(f"no tokenizer at {REAL / name}")
    tokenizer = AutoTokenizer.from_pretrained(REAL / name)
    prompts, *answers = render(PAIRS, tokenizer, chat)
    for i, (prompt, longer) in enumerate(measure(PAIRS, tokenizer, chat)):
        wholes = [len(tokenizer(texts[i])["input_ids"]) for texts in answers]
        assert (prompt, longer) == (len(tokenizer(prompts[i])["input_ids"]), max(wholes) + (not chat))
