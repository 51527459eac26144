import pytest
from transformers import AutoTokenizer

from rlhf_exp.config import ROOT
from rlhf_exp.tasks import as_completion, hh_rlhf
from rlhf_exp.tasks.hh_rlhf import RawPair, parse_pair
from rlhf_exp.tasks.sources import Item
from rlhf_exp.tasks.synthetic import generate_pairs
from rlhf_exp.tasks.tokens import measure, render
from tests.tasks.building import CHAT_TEMPLATE, build_tokenizer

REAL = ROOT.parent / "shared" / "data" / "tokenizers"
PAIRS = [parse_pair(RawPair("", subset, None, *texts))[0] for subset, *texts in generate_pairs(60, seed=0)]


def list_texts(chat):
    """The prompts of the pairs, and their answers, in one form."""
    prompts = [hh_rlhf.prompt(Item(pair.id, {}, pair), chat) for pair in PAIRS]
    return prompts, [(as_completion(pair.chosen, chat), as_completion(pair.rejected, chat)) for pair in PAIRS]


def render_all(tokenizer, prompts, answers):
    """The prompts as the model reads them, and each with each of its answers."""
    wholes = [[prompt + answer for answer in several] for prompt, several in zip(prompts, answers, strict=True)]
    return render(tokenizer, prompts, ask=True), [render(tokenizer, several) for several in wholes]


def test_a_plain_answer_counts_with_its_end_token():
    for pair, (prompt, answers) in zip(PAIRS, measure(build_tokenizer(), *list_texts(chat=False)), strict=True):
        assert prompt == len(pair.prompt)
        assert answers == tuple(1 + len(text) + 1 for text in (pair.chosen, pair.rejected))


@pytest.mark.parametrize("think", ["", "(hm)"])  # with a thought the whole dialogue does not begin with the prompt
def test_of_a_chat_pair_prompt_and_answer_sum_to_what_the_template_writes(think):
    template = CHAT_TEMPLATE.replace("<assistant>", f"<assistant>{think}")
    tokenizer, texts = build_tokenizer(template), list_texts(chat=True)
    prompts, wholes = render_all(tokenizer, *texts)
    question = PAIRS[0].history[0][1]
    assert prompts[0] == f"<user>{question}</s><assistant>{think}"
    assert wholes[0] == [f"<user>{question}</s><assistant>{text}</s>" for text in (PAIRS[0].chosen, PAIRS[0].rejected)]
    for (prompt, answers), alone, both in zip(measure(tokenizer, *texts), prompts, wholes, strict=True):
        assert prompt == len(alone)
        assert [prompt + answer for answer in answers] == [len(whole) for whole in both]


@pytest.mark.parametrize("chat", [False, True])
def test_rows_without_answers_keep_their_place(chat):
    tokenizer, (prompts, answers) = build_tokenizer(CHAT_TEMPLATE), list_texts(chat)
    full = measure(tokenizer, prompts, answers)
    some = measure(tokenizer, prompts, [texts if i % 2 else () for i, texts in enumerate(answers)])
    assert some == [counts if i % 2 else (counts.prompt, ()) for i, counts in enumerate(full)]
    assert measure(tokenizer, prompts, [()] * len(prompts)) == [(counts.prompt, ()) for counts in full]


@pytest.mark.parametrize(("name", "chat"), [("gpt2", False), ("qwen3", True), ("qwen3", False)])
def test_real_tokenizers_count_as_they_tokenize_the_whole_text(name, chat):
    if not (REAL / name).is_dir():
        pytest.skip(f"no tokenizer at {REAL / name}")
    tokenizer, texts = AutoTokenizer.from_pretrained(REAL / name), list_texts(chat)
    prompts, wholes = render_all(tokenizer, *texts)
    for (prompt, answers), alone, both in zip(measure(tokenizer, *texts), prompts, wholes, strict=True):
        assert prompt == len(tokenizer(alone)["input_ids"])
        assert [prompt + n for n in answers] == [len(tokenizer(whole)["input_ids"]) + (not chat) for whole in both]
