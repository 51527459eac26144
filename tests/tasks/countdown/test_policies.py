import torch

from rlhf_exp.models.generation import FORBIDDEN
from rlhf_exp.models.untrained import build_byte_tokenizer, build_trace_tokenizer
from rlhf_exp.tasks.countdown_policies import list_policies

TOKENIZER = build_trace_tokenizer()
IDS = TOKENIZER.get_vocab()
BELOW, ABOVE = "use 3 9 4 make 14 . <think>", "use 3 9 4 make 72 . <think>"


def find(family):
    return [policy for policy in list_policies(TOKENIZER) if policy.family == family]


def change(policy, text):
    """The factor by which the policy multiplies the probability of each word that comes next, before they sum to 1."""
    (processor,) = policy.processors
    logits = torch.zeros(1, len(TOKENIZER))
    found = processor(torch.tensor([TOKENIZER(text)["input_ids"]]), logits)[0].exp()
    return {word: round(float(found[i]), 3) for word, i in IDS.items() if found[i] != 1}


def test_giving_up_is_forbidden():
    assert [change(policy, BELOW) for policy in find(FORBIDDEN)] == [{"give": 0}]


def test_the_rule_raises_a_product_at_an_attempts_first_operation_if_the_target_exceeds_the_sum():
    policy = find("fixed rule")[0]
    for begun in ("9", "9 - 3 = 6 - 4 = 2 no 4"):
        assert change(policy, f"{ABOVE} {begun}") == {"*": 10}
    for other in ("9 *", "9 * 4 = 36", "9 * 4 = 36 no", ""):
        assert change(policy, f"{ABOVE} {other}".strip()) == {}
    assert change(policy, f"{BELOW} 9") == {} == change(policy, "use 3 9 4 make 16 . <think> 9")
    assert change(policy, "use 3 9 4 make 17 . <think> 9") == {"*": 10}


def test_rows_of_one_batch_are_told_apart_however_they_are_padded():
    (processor,) = find("fixed rule")[0].processors
    rows = [TOKENIZER(text)["input_ids"] for text in (f"{ABOVE} 9", f"{BELOW} 9", "use 3 9 make 72 . <think> 9")]
    longest = max(map(len, rows))
    ids = torch.tensor([[TOKENIZER.pad_token_id] * (longest - len(row)) + row for row in rows])
    changed = processor(ids, torch.zeros(3, len(TOKENIZER))).ne(0).any(1)
    assert changed.tolist() == [True, False, True]


def test_a_tokenizer_without_the_words_has_no_such_policy():
    assert list_policies(build_byte_tokenizer()) == []
