"""LoRA and 4-bit LoRA on tiny GPT-2, Qwen2 and Qwen3: what a run saves is loaded, merged and trained further."""

import json

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from rlhf_exp.models.loading import load_policy, load_scorer, load_tokenizer, merge, resolve_model
from rlhf_exp.models.source import ModelSource, locate_start_model
from tests.models.test_loading import lose
from tests.models.tiny import ARCHITECTURES, compose, logits, make_trainer, of_folder, refusal


def make_run(folder, architecture, *overrides):
    """The model of a run, and its source: in the folder are start_model, and in model/ an adapter of which nothing is
    zero."""
    trainer = make_trainer(folder, architecture, "algo=sft", *overrides)
    torch.manual_seed(1)
    for name, parameter in trainer.model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter.data, std=0.2)
    trainer.save_model(str(folder / "model"))
    return trainer.model.eval(), resolve_model(compose(architecture, *overrides), folder)


@pytest.fixture(scope="module", params=ARCHITECTURES)
def lora(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    return folder, *make_run(folder, request.param, "peft=lora")


def test_an_adapter_is_loaded_onto_its_base_as_it_was_saved(lora):
    folder, model, source = lora
    loaded = load_policy(source.at(folder / "model"))
    assert torch.equal(logits(loaded), logits(model))
    assert not torch.allclose(logits(loaded), logits(load_policy(source)), atol=1e-2)
    assert not loaded.training
    with loaded.disable_adapter():
        assert torch.equal(logits(loaded), logits(load_policy(source)))


def test_a_run_starts_from_another_runs_adapter(lora, tmp_path):
    """model.path=RUN/model: merged into the new run's folder once, and trained and measured from there."""
    folder, model, source = lora
    started = of_folder(folder / "model", "algo=dpo", "peft=lora")
    (tmp_path / ".saving" / "start_model").mkdir(parents=True)  # a merge that was cut off is begun again
    (tmp_path / ".saving" / "start_model" / "config.json").write_text("{}")
    start = resolve_model(started, tmp_path)
    assert not (tmp_path / ".saving").exists()
    assert start.path == str(tmp_path / "start_model") and not start.is_adapter
    written = (tmp_path / "start_model" / "model.safetensors").stat().st_mtime_ns
    assert resolve_model(started, tmp_path) == start
    assert (tmp_path / "start_model" / "model.safetensors").stat().st_mtime_ns == written
    policy = load_policy(start)
    assert policy.config.model_type == model.config.model_type
    assert torch.allclose(logits(policy), logits(model), atol=1e-5)  # measured: 6e-7
    merged, trained = load_tokenizer(start), load_tokenizer(source.at(folder / "model"))
    assert merged.get_vocab() == trained.get_vocab() and merged.pad_token_id == trained.pad_token_id


@pytest.mark.parametrize("architecture", ["gpt2", "qwen2"])
def test_a_reward_models_adapter_carries_its_head(architecture, tmp_path):
    model, source = make_run(tmp_path, architecture, "peft=lora", "algo=reward_model")
    saved = load_file(tmp_path / "model" / "adapter_model.safetensors")
    assert sum(name.endswith("score.weight") for name in saved) == 1
    torch.manual_seed(5)  # the head does not come from the random state
    loaded = load_scorer(source.at(tmp_path / "model"))
    assert logits(loaded).shape == (2, 1)
    assert torch.equal(logits(loaded), logits(model))
    merge(ModelSource(str(tmp_path / "model")), tmp_path / "merged")
    merged = load_scorer(source.at(tmp_path / "merged"))
    assert torch.allclose(logits(merged), logits(model), atol=1e-5)
    assert merged.config.architectures[0].endswith("ForSequenceClassification")
    assert json.loads((tmp_path / "merged" / "config.json").read_text())["pad_token_id"] == 0


@pytest.mark.parametrize("architecture", ["gpt2", "qwen3"])
def test_a_4_bit_base_is_loaded_quantised_and_merged_unquantised(architecture, tmp_path):
    model, source = make_run(tmp_path, architecture, "peft=qlora")
    assert {type(m).__name__ for m in model.modules()} >= {"Linear4bit"}
    assert model.get_base_model().dtype == torch.bfloat16
    assert logits(model).isfinite().all()
    loaded = load_policy(source.at(tmp_path / "model"))
    assert torch.equal(logits(loaded), logits(model))
    merge(ModelSource(str(tmp_path / "model")), tmp_path / "merged")
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "merged").eval()
    assert merged.dtype == torch.float32
    # The same adapter on the float32 base: what the merge is of. It differs from what was trained by the rounding.
    whole = load_policy(locate_start_model(compose(architecture, "peft=lora")).at(tmp_path / "model"))
    assert torch.allclose(logits(merged), logits(whole), atol=1e-5)
    rounding = (logits(merged) - logits(model)).abs().max()
    plain = load_policy(locate_start_model(compose(architecture)).at(source.path))
    assert 1e-4 < rounding < 0.5 * (logits(merged) - logits(plain)).abs().max()


def test_an_adapter_whose_base_is_another_or_gone_is_refused_in_one_line(tmp_path):
    make_run(tmp_path / "a", "gpt2", "peft=lora")
    adapter = tmp_path / "a" / "model"
    base = resolve_model(compose("qwen2"), tmp_path / "other").path
    line = refusal(resolve_model, of_folder(adapter, f"model.base={base}"), tmp_path / "run")
    assert line.startswith(f"model.path={adapter}: cannot be loaded onto its base {base} (")
    file = adapter / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"base_model_name_or_path": "/gone/x"}))
    line = refusal(resolve_model, of_folder(adapter), tmp_path / "run")
    assert line.startswith(f"model.path={adapter}: cannot be loaded onto its base /gone/x (")
    assert not (tmp_path / "run" / "start_model").exists()
    cfg = of_folder(adapter, f"model.base={tmp_path}/a/start_model")
    assert load_policy(resolve_model(cfg, tmp_path / "run")).config.model_type == "gpt2"
    line = refusal(resolve_model, of_folder(adapter, f"model.base={adapter}"), tmp_path / "again")
    assert f"is an adapter, and so is its base {adapter}" in line


def test_an_adapter_or_a_base_whose_files_lack_tensors_is_refused_by_their_names(tmp_path):
    _, source = make_run(tmp_path, "gpt2", "peft=lora")
    adapter, file = source.at(tmp_path / "model"), tmp_path / "model" / "adapter_model.safetensors"
    whole = file.read_bytes()
    lose(file.parent, "h.0.attn.c_attn.lora_A.weight")
    line = refusal(load_policy, adapter)
    assert "(the adapter lacks 1 tensors: base_model.model.transformer.h.0.attn.c_attn.lora_A.weight)" in line
    file.write_bytes(whole)
    lose(source.path, "ln_f.weight")
    line = refusal(load_policy, adapter)
    assert f"of its base {source.path}, 1 of " in line and " none of its files: transformer.ln_f.weight;" in line
