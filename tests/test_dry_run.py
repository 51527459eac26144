import pytest
from transformers import AutoModelForCausalLM

from rlhf_exp.config import compose_config
from rlhf_exp.dry_run import print_dry_run
from rlhf_exp.models.untrained import build_trace_tokenizer

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
    assert "not with algo=grpo: loss_type=nll, dft, sigmoid" in text
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
    assert f"parameters: {parameters:,}, all trained\n" in text
    total = parameters * 4 * 4 + 256 * 17 * 8 * (2 * 30) * 4
    assert f"estimated: {total / 1e9:.2f} GB, beside the libraries, = {parameters:,} parameters x 4 bytes + " in text
    assert f"{parameters:,} trained x 4 bytes x 3 (gradients, AdamW's two moments)" in text
    assert "256 rows x 17 tokens x 8 hidden x 60 values kept x 4 bytes" in text


def test_sft_counts_the_tokens_of_its_demonstrations(no_weights, capsys):
    print_dry_run(compose_config([*SMALL, "algo=sft", "model=tiny_untrained"]))
    text = capsys.readouterr().out
    assert "steps: 5000\n" in text
    assert "at most" not in text
    assert "reference" not in text.split("memory, estimated")[1]


def test_with_adapters_only_they_have_gradients_and_4_bit_weights_take_half_a_byte(no_weights, capsys):
    print_dry_run(compose_config([*SMALL, "model=tiny_gpt2", "peft=qlora", "max_tokens=10"]))
    text = capsys.readouterr().out
    weights = {"attention": (64, 192), "its output": (64, 64), "up": (64, 192), "down": (192, 64)}
    trained = 2 * sum(8 * (rows + columns) for rows, columns in weights.values())  # two layers, rank 8
    assert f", {trained:,} of them trained\n" in text
    assert f" parameters x 0.516 bytes + {trained:,} trained x 2 bytes x 3 " in text


def test_pairs_count_both_answers_and_what_will_be_sampled_first_is_said(no_weights, capsys):
    print_dry_run(compose_config([*SMALL, "algo=reward_model", "max_tokens=10"]))
    text = capsys.readouterr().out
    assert "rows: made of 1024 x 8 completions to train on, a share of them held out (test)" in text
    assert "tokens per step: 32 x (prompt 7 + chosen 10 at most + prompt 7 + rejected 10 at most) = 1,088" in text
