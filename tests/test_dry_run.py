import pytest
from transformers import AutoModelForCausalLM

from rlhf_exp.config import compose_config
from rlhf_exp.dry_run import print_dry_run
from rlhf_exp.untrained import build_trace_tokenizer

SMALL = ["device=cpu", "task.train_rows=64", "eval.rows=16"]


@pytest.fixture
def no_weights(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("weights were loaded")

    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", refuse)


def test_a_dry_run_prints_config_rows_tokens_and_memory(no_weights, capsys):
    overrides = [
        "model=tiny_untrained",
        "model.init.num_hidden_layers=1",
        "max_tokens=10",
        "algo.args.per_device_train_batch_size=256",
    ]
    print_dry_run(compose_config([*SMALL, *overrides]))
    text = capsys.readouterr().out
    assert "max_completion_length: 10\n" in text
    assert "rows: 64 to train on, 16 held out (test)" in text
    assert "tokens per step: 256 x (prompt 7 + completion 10 at most) = 4,352" in text
    assert "not with task=countdown: algo=dpo, reward_model" in text
    assert text.endswith("all checks passed\n")


def test_parameters_and_memory_are_worked_out_by_hand(no_weights, capsys):
    shape = {"hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    shape |= {"num_key_value_heads": 2, "head_dim": 4}
    overrides = [f"++model.init.{name}={value}" for name, value in shape.items()]
    overrides += ["++model.init.tie_word_embeddings=true", "max_tokens=10", "algo.args.beta=0"]
    overrides.append("algo.args.per_device_train_batch_size=256")
    print_dry_run(compose_config([*SMALL, "model=tiny_untrained", *overrides]))
    text = capsys.readouterr().out
    layer = 4 * 8 * 8 + 3 * 8 * 16 + 2 * 8 + 2 * 4  # attention, MLP, two norms, norms of query and key
    parameters = len(build_trace_tokenizer()) * 8 + 2 * layer + 8
    assert f"parameters: {parameters:,}\n" in text
    total = parameters * 4 * 4 + 256 * 17 * 8 * (2 * 30) * 4
    assert f"estimated: {total / 1e9:.2f} GB, beside the libraries, = {parameters:,} parameters x 4 bytes x 4 " in text
    assert "256 rows x 17 tokens x 8 hidden x 60 values kept x 4 bytes" in text


def test_sft_counts_the_tokens_of_its_demonstrations(no_weights, capsys):
    print_dry_run(compose_config([*SMALL, "algo=sft", "model=tiny_untrained"]))
    text = capsys.readouterr().out
    assert "steps: 1\n" in text
    assert "at most" not in text
    assert "reference" not in text.split("memory")[1]
