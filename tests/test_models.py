import json

import pytest
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from rlhf_exp.config import ConfigError, compose_config
from rlhf_exp.models import (
    ASSETS,
    build_trace_tokenizer,
    count_unknown,
    identify_weights,
    load_tokenizer,
    resolve_model,
)


def test_the_shipped_model_is_small_and_loads_with_its_tokenizer_alone():
    folder = ASSETS / "tiny"
    assert sum(file.stat().st_size for file in folder.iterdir()) < 6_000_000
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    assert model.config.model_type == "qwen3" and model.config.vocab_size == len(tokenizer)
    assert tokenizer.get_vocab() == build_trace_tokenizer().get_vocab()
    assert not any(file.suffix in (".bin", ".pt", ".pkl") for file in folder.iterdir())


def test_the_model_card_names_the_command_that_rebuilds_it():
    card = (ASSETS / "tiny" / "README.md").read_text()
    assert "python -m rlhf_exp algo=sft task=countdown model=tiny_untrained" in card


def test_an_untrained_model_is_made_once_and_is_seeded(tmp_path):
    cfg = compose_config(["algo=sft", "model=tiny_untrained", "seed=3"])
    first, again = resolve_model(cfg, tmp_path / "a"), resolve_model(cfg, tmp_path / "b")
    other = resolve_model(compose_config(["algo=sft", "model=tiny_untrained", "seed=4"]), tmp_path / "c")
    assert identify_weights(first) == identify_weights(again) != identify_weights(other)
    assert resolve_model(cfg, tmp_path / "a") == first
    weights = load_file(f"{first}/model.safetensors")
    assert sum(tensor.numel() for tensor in weights.values()) < 1_000_000


def test_weights_are_told_apart_by_any_file_that_matters(tmp_path):
    cfg = compose_config(["algo=sft", "model=tiny_untrained"])
    path = resolve_model(cfg, tmp_path)
    before = identify_weights(path)
    config = json.loads((tmp_path / "start_model" / "config.json").read_text())
    (tmp_path / "start_model" / "config.json").write_text(json.dumps({**config, "rms_norm_eps": 0.1}))
    assert identify_weights(path) != before


def test_words_outside_a_closed_vocabulary_are_counted():
    tokenizer = build_trace_tokenizer()
    assert count_unknown(tokenizer, ["use 8 7 3 make 53 ."]) == {}
    assert count_unknown(tokenizer, ["use 8 777 make 53 .", "use 777 make 1000 ."]) == {"777": 2, "1000": 1}


def test_a_folder_without_a_tokenizer_is_refused_in_one_line(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    cfg = compose_config(["model=gpt2", f"model.path={tmp_path}"])
    with pytest.raises(ConfigError) as error:
        load_tokenizer(cfg, str(tmp_path))
    assert len(error.value.problems) == 1
    assert error.value.problems[0].startswith(f"model.path={tmp_path}: cannot be loaded (")


def test_a_hub_that_cannot_be_reached_names_the_local_way(monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError("We couldn't connect to the hub.\nMore lines.")

    monkeypatch.setattr(AutoTokenizer, "from_pretrained", refuse)
    cfg = compose_config(["model=gpt2"])
    with pytest.raises(ConfigError, match="without a network use model=tiny, or model.path=FOLDER"):
        load_tokenizer(cfg, cfg.model.path)
