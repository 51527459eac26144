import warnings

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

from rlhf_exp.models.patches import patch_position_ids
from rlhf_exp.models.untrained import build_byte_tokenizer
from tests.building import build_random

PROMPTS = ["a", "A much longer prompt than the others here", "two words", "and a fourth one"]
TOKENIZER = build_byte_tokenizer()
ROWS = TOKENIZER(PROMPTS)["input_ids"]


def pad_left():
    batch = TOKENIZER(PROMPTS, padding=True, return_tensors="pt")
    return batch["input_ids"], batch["attention_mask"]


def padding_error(model):
    """The largest difference of the last token's logits, left-padded in a batch against each row alone."""
    ids, mask = pad_left()
    with torch.no_grad():
        padded = model(input_ids=ids, attention_mask=mask).logits
        alone = [model(input_ids=torch.tensor([row])).logits for row in ROWS]
    last = [row[0] if row.dim() == 2 else row[0, -1] for row in alone]
    padded = padded if padded.dim() == 2 else padded[:, -1]
    return max((a - b).abs().max().item() for a, b in zip(padded, last, strict=True))


@pytest.mark.parametrize("kind", [AutoModelForCausalLM, AutoModelForSequenceClassification])
def test_left_padding_changes_gpt2_without_the_patch_and_not_with_it(kind):
    model = build_random("gpt2", TOKENIZER, kind)
    assert padding_error(model) > 0.1
    patch_position_ids(model)
    assert padding_error(model) < 1e-4


@pytest.mark.parametrize("wrapped_first", [True, False])
def test_the_patch_reaches_the_backbone_below_peft(wrapped_first):
    model = build_random("gpt2", TOKENIZER)
    config = LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM", init_lora_weights=False)
    if not wrapped_first:
        patch_position_ids(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        adapted = get_peft_model(model, config).eval()
    if wrapped_first:
        assert padding_error(adapted) > 0.1
        patch_position_ids(adapted)
    assert padding_error(adapted) < 1e-4
