import re
from types import SimpleNamespace

import pytest
from transformers import AutoModelForCausalLM, GPT2Config
from trl.kernels.chunked_logprob import TOKEN_CHUNK_SIZE
from trl.trainer.utils import _CHUNKED_LOGPROB_CHUNK_SIZE

from rlhf_exp import processes
from rlhf_exp.config import device
from rlhf_exp.config.compose import compose_config
from rlhf_exp.dry_run import cost
from rlhf_exp.dry_run.cost import judge_memory
from rlhf_exp.dry_run.show import print_dry_run, print_dry_runs
from rlhf_exp.errors import ConfigError
from rlhf_exp.models.untrained import build_byte_tokenizer, build_trace_tokenizer
from rlhf_exp.trainers import trimmed

SMALL = ["device=cpu", "task.train_rows=64", "eval.rows=16"]


@pytest.fixture
def no_weights(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("weights were loaded")

    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", refuse)


@pytest.fixture
def show(no_weights, capsys):
    """show("algo=sft", ...) is what a dry run prints, with all details."""

    def show(*overrides):
        print_dry_run(compose_config([*SMALL, "verbose=true", *overrides]))
        return capsys.readouterr().out

    return show


def test_a_sweep_is_a_table_with_totals(no_weights, capsys):
    near, far = [*SMALL, "algo=none"], ["hardware=gpu_24gb", "dry_run=true", *SMALL[1:]]
    named = {"algo=none": near, "peft=none": far, "hardware.memory_gb=0.001": [*far, "hardware.memory_gb=0.001"]}
    with pytest.raises(ConfigError) as failed:
        print_dry_runs({name: compose_config(overrides) for name, overrides in named.items()})
    head, *rows, total = [re.split("  +", line) for line in capsys.readouterr().out.splitlines()]
    assert head == ["job", "memory", "checks"] and [row[0] for row in rows] == [*named]
    assert [row[1].split(":")[0] for row in rows] == ["fits", "fits", "DOES NOT FIT"]
    assert [row[2] for row in rows] == ["all passed", "all passed", "FAILED: memory"]
    assert total == ["3 jobs: memory: 2 fits, 1 DOES NOT FIT; checks: 2 all passed, 1 FAILED: memory"]
    [problem] = failed.value.problems
    assert problem.startswith("hardware.memory_gb=0.001: memory: ")


def test_rows_parameters_and_memory_are_worked_out_by_hand(show):
    shape = {"hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    shape |= {"num_key_value_heads": 2, "head_dim": 4}
    overrides = [f"++model.init.{name}={value}" for name, value in shape.items()]
    overrides += ["++model.init.tie_word_embeddings=true", "max_tokens=10", "algo.args.beta=0"]
    overrides.append("algo.args.per_device_train_batch_size=256")
    text = show("model=tiny_untrained", *overrides)
    assert "  | use " in text and "\nchecks   all passed\n" in text
    assert "rows: 64 to train on, 16 held out (test)" in text
    assert "tokens   256 x (prompt 7 + completion 10 at most) = 4,352 of a step\n" in text
    layer = 4 * 8 * 8 + 3 * 8 * 16 + 2 * 8 + 2 * 4  # attention, MLP, two norms, norms of query and key
    parameters = len(build_trace_tokenizer()) * 8 + 2 * layer + 8
    assert f"; parameters: {parameters:,}, all trained; " in text
    kept = 2 * (8 * 8 + 4.5 * (16 + 8 + 8)) * 4  # of a token in two layers: MLP, queries, keys or values
    logits = (1024 // 10) * 17 * len(build_trace_tokenizer()) * 4 * 7 + len(build_trace_tokenizer()) * 8 * 4
    training = parameters * 4 * 4 + 256 * 17 * kept + logits
    sampling = parameters * 4 * 3 + 256 * 17 * 2 * 2 * 8 * 4
    evaluation = 2 * parameters * 4 + 128 * 17 * 2 * 2 * 8 * 4
    phases = f"training {training / 1e6:.1f} MB, sampling {sampling / 1e6:.1f} MB, evaluation {evaluation / 1e6:.1f} MB"
    assert f"memory, estimated, without the libraries: {phases}\n" in text
    parts = {"weights": 4 * parameters, "AdamW's moments": 8 * parameters, "gradients": 4 * parameters}
    parts |= {"activations": 256 * 17 * kept, "logits": logits}
    formula = " + ".join(f"{what} {bytes_ / 1e6:.1f} MB" for what, bytes_ in parts.items())
    assert kept == 1664 and f"memory of training = {formula}\n" in text


def test_logits_are_in_tiles_of_trls_size_and_chunks_of_the_trainers():
    assert (cost.TILE_TOKENS, cost.TILE_VOCABULARY) == (TOKEN_CHUNK_SIZE, _CHUNKED_LOGPROB_CHUNK_SIZE)
    assert (cost.CHUNK_TOKENS, cost.CHUNK_VOCABULARY) == (trimmed.CHUNK_TOKENS, trimmed.TILE_VOCABULARY)


def test_a_chat_prompt_is_shown_as_the_model_reads_it(show, tmp_path):
    tokenizer = build_byte_tokenizer()
    tokenizer.chat_template = "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}\n{% endfor %}<|assistant|>\n"
    tokenizer.save_pretrained(tmp_path)
    GPT2Config(n_embd=8, n_layer=1, n_head=2, vocab_size=len(tokenizer)).save_pretrained(tmp_path)
    text = show(f"model.path={tmp_path}", "task.prompt=chat")
    assert "  | <|user|>\n  | Using the numbers [" in text and "...\n  | <|assistant|>\n" in text


@pytest.mark.parametrize(
    ("targets", "why"),
    [
        (".*nope", "do not fit model=tiny (Target modules "),
        ("[model.layers.99.self_attn.q_proj]", "do not fit model=tiny (Target modules "),
        ("[q_proj,v_porj]", "Qwen3ForCausalLM has no module v_porj; did you mean v_proj?"),
        ("[lm_head,q_proj]", "the adapter of the head, lm_head, would not be trained"),
        (".*(q_proj|lm_head)", "the adapter of the head, lm_head, would not be trained"),
        ("[norm]", "do not fit model=tiny (Target module Qwen3RMSNorm"),
        (".*(", "do not fit model=tiny (missing ), unterminated subpattern"),
    ],
)
def test_an_adapter_that_no_module_can_have_is_refused(show, targets, why):
    typed = f"'{targets}'" if "(" in targets else targets
    with pytest.raises(ConfigError) as refused:
        show("dry_run=true", "peft=lora", f"peft.lora.target_modules={typed}")
    [line] = refused.value.problems
    assert line.startswith(f"peft.lora.target_modules={targets.replace(',', ', ')}: {why}") and len(line) < 400


def test_more_memory_than_is_free_fails_with_a_way_out(show, capsys, monkeypatch):
    free = SimpleNamespace(available=10**12)
    monkeypatch.setattr("psutil.virtual_memory", lambda: free)
    assert "\nmemory   fits: training needs " in show("algo=sft")
    free.available = 3e7
    with pytest.raises(ConfigError) as failed:
        show("algo=sft")
    [problem] = failed.value.problems
    assert " MB, MORE than the 0.03 GB that are free on this computer; less is needed with algo.args." in problem
    printed = capsys.readouterr().out
    assert "\nmemory   DOES NOT FIT: training needs " in printed and "\nchecks   FAILED: memory\n" in printed


def test_processes_share_the_memory_of_a_computer(monkeypatch):
    cfg = compose_config(["device=cpu"])
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=6 * 10**9))
    monkeypatch.setattr(processes, "count", lambda: 2)
    assert cost.find_memory(cfg) == (3e9, "the 3.00 GB that are free on this computer for each of 2 processes")


def test_on_a_gpu_its_own_free_bytes_count(monkeypatch):
    monkeypatch.setattr("torch.cuda.mem_get_info", lambda: (8 * 10**9, 10**12))
    monkeypatch.setattr(device, "cuda_major", lambda: 9)
    cfg = compose_config([])
    fits, needs, place = judge_memory(cfg, {"training": 11e9})
    assert (fits, needs) == ("DOES NOT FIT", "training needs 11.00 GB")
    assert place.startswith(", MORE than the 8.00 GB that are free on this GPU; less is needed with ")
    assert [judge_memory(cfg, {"training": peak})[0] for peak in (5e9, 6e9)] == ["fits", "may not fit"]
