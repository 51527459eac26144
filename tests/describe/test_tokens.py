import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.describe.rows import Example, count_tokens, load_tokenizer
from rlhf_exp.errors import ConfigError
from rlhf_exp.launch.arguments import compose_command


def test_a_closed_vocabulary_counts_its_own_words_and_refuses_others():
    cfg = compose_config(["algo=sft"])
    prompts = ("use 8 7 3 make 53 .", "make tea and bread")
    known, unknown = (Example("s", "train", 2, prompt, (" yes",)) for prompt in prompts)
    assert count_tokens(cfg, load_tokenizer(cfg), [known]) == [(7, (2,))]
    with pytest.raises(ConfigError, match="model=tiny: its tokenizer does not know 75% of the words; choose another: "):
        count_tokens(cfg, load_tokenizer(cfg), [unknown])


def test_a_folder_without_a_tokenizer_is_refused_in_one_line(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    cfg, _ = compose_command("describe", ["algo=none"], ["task=countdown", f"model.path={tmp_path}"])
    with pytest.raises(ConfigError) as caught:
        load_tokenizer(cfg)
    assert caught.value.problems == [
        f"model.path={tmp_path}: holds no tokenizer; must have a tokenizer.json, or its older files"
    ]
