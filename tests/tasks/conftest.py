"""What the tests of tasks share: a small model's tokenizer, made without its model."""

import pytest

from rlhf_exp.models.untrained import build_byte_tokenizer


@pytest.fixture(scope="session")
def small_tokenizer():
    """`small_tokenizer(template)`: that of model=tiny_qwen3, with another chat template or none."""

    def build(template=None, context=512):
        tokenizer = build_byte_tokenizer()
        tokenizer.chat_template, tokenizer.model_max_length = template, context
        return tokenizer

    return build
