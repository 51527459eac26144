import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from rlhf_exp.models.untrained import create_untrained
from tests.building import SHAPE
from tests.models.tiny import ARCHITECTURES, refusal

TEXTS = ["", " ", "\n\nHuman: Hi!", "na\u00efve \u65e5\u672c \U0001f600", "a\tb  c\r\n", "\x00'\"<unk>"]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_any_architecture_takes_the_same_shape_and_reads_any_text(architecture, tmp_path):
    heads = {} if architecture == "gpt2" else {"num_key_value_heads": 2}
    create_untrained({"architecture": architecture, "tokenizer": "bytes", **SHAPE, **heads}, 0, tmp_path)
    model, tokenizer = AutoModelForCausalLM.from_pretrained(tmp_path), AutoTokenizer.from_pretrained(tmp_path)
    config = model.config
    width = "n_inner" if architecture == "gpt2" else "intermediate_size"
    names = {name: width if name == "intermediate_size" else name for name in SHAPE}
    assert {name: getattr(config, own) for name, own in names.items()} == SHAPE
    assert config.model_type == architecture
    assert config.vocab_size == len(tokenizer) == 258
    assert (config.pad_token_id, config.eos_token_id) == (tokenizer.pad_token_id, tokenizer.eos_token_id) == (0, 1)
    assert tokenizer.unk_token_id is None and tokenizer.padding_side == "left"
    for text in TEXTS:
        ids = tokenizer(text)["input_ids"]
        assert len(ids) == len(text.encode())
        assert tokenizer.decode(ids) == text
    assert model(input_ids=torch.tensor([[2, 3, 257]])).logits.isfinite().all()


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"architecture": "qwen2", "tokenizer": "words"}, "model.init.tokenizer=words: not with architecture=qwen2"),
        ({"hiden_size": 3}, "model.init.hiden_size=3: gpt2 has no such key; did you mean hidden_size?; must be one of"),
        ({"num_attention_heads": 5}, "model.init: not a shape of gpt2 ("),
        ({"architecture": "qwen2", "num_key_value_heads": 3}, "model.init: not a shape of qwen2 ("),
    ],
)
def test_what_an_architecture_cannot_have_is_refused_in_one_line(changes, line, tmp_path):
    init = {"architecture": "gpt2", "tokenizer": "bytes", **SHAPE, **changes}
    assert refusal(create_untrained, init, 0, tmp_path).startswith(line)
    assert not any(tmp_path.iterdir())
