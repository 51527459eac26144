import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from rlhf_exp.errors import ConfigError
from rlhf_exp.models.untrained import build_byte_tokenizer, build_config, create_untrained

SHAPE = {
    "hidden_size": 64, "intermediate_size": 192, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 512,
}  # fmt: skip


TEXTS = ["", " ", "\n\nHuman: Hi!", "na\u00efve \u65e5\u672c \U0001f600", "a\tb  c\r\n", "\x00'\"<unk>"]


@pytest.mark.parametrize("architecture", ["gpt2", "qwen2", "qwen3"])
def test_any_architecture_takes_the_same_shape_and_reads_any_text(architecture, tmp_path):
    heads = {} if architecture == "gpt2" else {"num_key_value_heads": 2}
    create_untrained({"architecture": architecture, "tokenizer": "bytes", **SHAPE, **heads}, 0, tmp_path)
    model, tokenizer = AutoModelForCausalLM.from_pretrained(tmp_path), AutoTokenizer.from_pretrained(tmp_path)
    config = model.config
    assert config.model_type == architecture
    for name in set(SHAPE) - {"intermediate_size"}:
        assert getattr(config, name) == SHAPE[name], name
    width = config.n_inner if architecture == "gpt2" else config.intermediate_size
    assert width == SHAPE["intermediate_size"]
    assert config.vocab_size == len(tokenizer) == 258
    assert (config.pad_token_id, config.eos_token_id) == (tokenizer.pad_token_id, tokenizer.eos_token_id) == (0, 1)
    assert tokenizer.unk_token_id is None and tokenizer.padding_side == "left"
    for text in TEXTS:
        ids = tokenizer(text)["input_ids"]
        assert len(ids) == len(text.encode())
        assert tokenizer.decode(ids) == text
    assert model(input_ids=torch.tensor([[2, 3, 257]])).logits.isfinite().all()


def test_a_model_of_words_reads_them_after_it_is_saved(tmp_path):
    create_untrained({"architecture": "gpt2", "tokenizer": "words", **SHAPE}, 0, tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    words = "use 8 7 make 56 ."
    assert tokenizer.convert_ids_to_tokens(tokenizer(words)["input_ids"]) == words.split()


def test_words_are_refused_for_qwen2_whose_folders_are_read_with_its_own_tokenizer(tmp_path):
    with pytest.raises(ConfigError, match="^model.init.tokenizer=words: not with architecture=qwen2"):
        create_untrained({"architecture": "qwen2", "tokenizer": "words", **SHAPE}, 0, tmp_path)


@pytest.mark.parametrize(
    ("key", "hint"), [("hiden_size", "; did you mean hidden_size?"), ("num_key_value_heads", ""), ("vocab_size", "")]
)
def test_a_key_that_the_architecture_lacks_is_refused_in_one_line(key, hint):
    init = {"architecture": "gpt2", "tokenizer": "bytes", **SHAPE, key: 3}
    with pytest.raises(ConfigError) as error:
        build_config(init, build_byte_tokenizer())
    [line] = error.value.problems
    assert line.startswith(f"model.init.{key}=3: gpt2 has no such key{hint}; must be one of architecture, tokenizer, ")


def test_a_shape_that_cannot_be_is_refused_in_one_line(tmp_path):
    init = {"architecture": "gpt2", "tokenizer": "bytes", **SHAPE}
    for changes, message in (
        ({"num_attention_heads": 5}, "model.init: not a shape of gpt2 (`embed_dim` must be divisible by num_heads"),
        ({"hidden_size": 64.5}, "model.init: not a shape of gpt2 (Validation error for field 'n_embd': TypeError:"),
        ({"architecture": "qwen2", "num_key_value_heads": 3}, "model.init: not a shape of qwen2 (The size of tensor"),
    ):
        with pytest.raises(ConfigError) as error:
            create_untrained(init | changes, 0, tmp_path)
        assert len(error.value.problems) == 1 and error.value.problems[0].startswith(message)
    assert not any(tmp_path.iterdir())
