"""LoRA and 4-bit LoRA on tiny GPT-2, Qwen2 and Qwen3: what a run saves is loaded, merged and trained further."""

import json
import warnings

import pytest
import torch
from peft import get_peft_model
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from rlhf_exp.config.compose import compose_config
from rlhf_exp.errors import ConfigError
from rlhf_exp.merge import main
from rlhf_exp.models.adapters import build_peft_config, keep_dtype_on_resume
from rlhf_exp.models.loading import load_policy, load_scorer, load_tokenizer, merge, resolve_model
from rlhf_exp.models.source import ModelSource, locate_start_model

ARCHITECTURES = ("gpt2", "qwen2", "qwen3")
INIT = {"hidden_size": 64, "intermediate_size": 64, "max_position_embeddings": 64}
SMALL = ["device=cpu", *(f"model.init.{name}={size}" for name, size in INIT.items())]
IDS = torch.tensor([[5, 9, 200, 31, 77, 8], [6, 60, 61, 62, 3, 3]])


def compose(architecture, *overrides):
    return compose_config([f"model=tiny_{architecture}", *SMALL, *overrides])


def make_run(folder, architecture, *overrides):
    """A run's folder: start_model, and in model/ an adapter of which nothing is zero, saved as TRL saves it."""
    cfg = compose(architecture, *overrides)
    source = resolve_model(cfg, folder)
    base = load_scorer(source, cfg.seed) if cfg.algo.name == "reward_model" else load_policy(source)
    torch.manual_seed(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = get_peft_model(base, build_peft_config(cfg)).eval()
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            if cfg.peft.quantization:
                parameter.data = parameter.data.to(torch.bfloat16)  # as TRL does
            if "lora_B" in name:
                torch.nn.init.normal_(parameter.data, std=0.2)
    model.save_pretrained(folder / "model")
    load_tokenizer(source).save_pretrained(folder / "model")
    return cfg, model, source


@torch.no_grad()
def logits(model):
    return model(input_ids=IDS).logits.float()


@pytest.fixture(scope="module", params=ARCHITECTURES)
def lora(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    cfg, model, source = make_run(folder, request.param, "peft=lora")
    return folder, cfg, model, source


def test_an_adapter_is_loaded_onto_its_base_as_it_was_saved(lora):
    folder, cfg, model, source = lora
    loaded = load_policy(source.at(folder / "model"))
    assert torch.equal(logits(loaded), logits(model))
    assert not torch.allclose(logits(loaded), logits(load_policy(source)), atol=1e-2)
    assert not loaded.training
    with loaded.disable_adapter():
        assert torch.equal(logits(loaded), logits(load_policy(source)))


def test_merged_weights_give_the_adapters_logits(lora, tmp_path):
    folder, _, model, source = lora
    merge(ModelSource(str(folder / "model")), tmp_path / "merged")
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "merged").eval()
    assert torch.allclose(logits(merged), logits(model), atol=1e-5)  # measured: 6e-7
    assert (
        AutoTokenizer.from_pretrained(tmp_path / "merged").get_vocab()
        == load_tokenizer(source.at(folder / "model")).get_vocab()
    )
    files = {file.suffix for file in (tmp_path / "merged").iterdir()}
    assert files == {".json", ".safetensors"}


def test_a_run_starts_from_another_runs_adapter(lora, tmp_path):
    """model.path=RUN/model: merged into the new run's folder once, and trained and measured from there."""
    folder, cfg, model, source = lora
    name = cfg.model.init["architecture"]
    started = compose_config(["model=gpt2", f"model.path={folder / 'model'}", "algo=dpo", "peft=lora", "device=cpu"])
    start = resolve_model(started, tmp_path)
    assert start.path == str(tmp_path / "start_model") and not start.is_adapter
    written = (tmp_path / "start_model" / "model.safetensors").stat().st_mtime_ns
    assert resolve_model(started, tmp_path) == start
    assert (tmp_path / "start_model" / "model.safetensors").stat().st_mtime_ns == written
    policy = load_policy(start)
    assert policy.config.model_type == name
    assert torch.allclose(logits(policy), logits(model), atol=1e-5)
    assert load_tokenizer(start).pad_token_id == load_tokenizer(source.at(folder / "model")).pad_token_id


def test_a_merge_that_was_cut_off_is_begun_again(lora, tmp_path):
    folder, _, model, _ = lora
    started = compose_config(["model=gpt2", f"model.path={folder / 'model'}", "device=cpu"])
    (tmp_path / ".saving" / "start_model").mkdir(parents=True)
    (tmp_path / ".saving" / "start_model" / "config.json").write_text("{}")
    policy = load_policy(resolve_model(started, tmp_path))
    assert torch.allclose(logits(policy), logits(model), atol=1e-5)
    assert not (tmp_path / ".saving").exists()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_reward_models_adapter_carries_its_head(architecture, tmp_path):
    cfg, model, source = make_run(tmp_path, architecture, "peft=lora", "algo=reward_model")
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


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_4_bit_base_is_loaded_quantised_and_merged_unquantised(architecture, tmp_path):
    cfg, model, source = make_run(tmp_path, architecture, "peft=qlora")
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


@pytest.mark.parametrize(("algo", "peft"), [("sft", "lora"), ("sft", "qlora"), ("reward_model", "qlora")])
def test_training_resumes_from_a_checkpoint_as_if_it_had_not_stopped(algo, peft, tmp_path):
    from rlhf_exp.config.trl_args import build_args
    from rlhf_exp.experiment import Experiment
    from rlhf_exp.trainers import build_trainer

    rows = [{"prompt": "ab", "completion": f" c{i}", "chosen": f" c{i}", "rejected": f" {i}d"} for i in range(8)]

    def train(folder, resume=None, steps=4):
        cfg = compose(
            "qwen2", f"algo={algo}", f"peft={peft}", f"output_dir={folder}", "algo.args.per_device_train_batch_size=2",
            f"algo.args.max_steps={steps}", "algo.args.save_steps=2", "algo.args.save_total_limit=null",
            "algo.args.learning_rate=1e-2", "algo.args.lr_scheduler_type=constant",
        )  # fmt: skip
        source = resolve_model(cfg, tmp_path)
        task = type("Rows", (), {"train": rows})
        parts = Experiment(cfg, None, source, load_tokenizer(source), task, [], build_args(cfg))
        trainer = build_trainer(parts)
        keep_dtype_on_resume(trainer.model)
        trainer.train(resume_from_checkpoint=resume)
        trainer.save_model(str(folder / "model"))
        return load_file(folder / "model" / "adapter_model.safetensors")

    whole = train(tmp_path / "whole")
    resumed = train(tmp_path / "resumed", resume=str(tmp_path / "whole" / "checkpoints" / "checkpoint-2"))
    assert whole.keys() == resumed.keys()
    for name, tensor in whole.items():
        assert torch.equal(tensor, resumed[name]), name
    assert ModelSource(str(tmp_path / "whole" / "model")).weights == str(tmp_path / "start_model")


def test_a_moved_run_finds_the_start_model_in_its_own_folder(lora, tmp_path):
    folder, cfg, model, _ = lora
    moved = tmp_path / "moved"
    (moved / "checkpoints").mkdir(parents=True)
    for name in ("model", "checkpoints/checkpoint-2"):
        (moved / name).mkdir()
        for file in (folder / "model").iterdir():
            (moved / name / file.name).write_bytes(file.read_bytes())
    (moved / "start_model").mkdir()
    for file in (folder / "start_model").iterdir():
        (moved / "start_model" / file.name).write_bytes(file.read_bytes())
    for name in ("model", "checkpoints/checkpoint-2"):
        assert ModelSource(str(moved / name)).weights == str(moved / "start_model")


def test_the_command_writes_a_model_and_says_so(lora, tmp_path, capsys):
    folder, _, model, source = lora
    (folder / "run.json").write_text("{}")
    assert main([str(folder), str(tmp_path / "out"), "--dtype", "bfloat16"]) == 0
    assert f"written: {tmp_path / 'out'} ({folder / 'model'} on {source.path}, bfloat16)\n" in capsys.readouterr().out
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert merged.dtype == torch.bfloat16
    assert torch.allclose(logits(merged), logits(model), atol=0.05)


def refuse(capsys, *arguments):
    assert main([str(argument) for argument in arguments]) == 2
    out, err = capsys.readouterr()
    assert out in ("", f"adds {arguments[0]} to its base: {arguments[1]}\n") and err.count("\n") == 1
    return err.removeprefix("rlhf_exp merge: ").strip()


def test_the_command_refuses_in_one_line(tmp_path, capsys):
    _, _, source = make_run(tmp_path / "a", "gpt2", "peft=lora")
    adapter, out = tmp_path / "a" / "model", tmp_path / "out"
    capsys.readouterr()
    kinds = "must be an adapter's folder, or a run's with peft=lora or peft=qlora"
    assert refuse(capsys, tmp_path / "x", out) == f"{tmp_path / 'x'}: no adapter_config.json there; {kinds}"
    assert refuse(capsys, source.path, out) == f"{source.path}: already a model of full weights; {kinds}"
    assert refuse(capsys, adapter, tmp_path) == f"{tmp_path}: is not empty; must be a new or empty folder"
    give = "; give the base it was trained on with --base FOLDER"
    line = refuse(capsys, adapter, out, "--base", tmp_path / "nowhere")
    assert line.startswith(f"{adapter}: is an adapter for {tmp_path / 'nowhere'}, which cannot be loaded (")
    assert line.endswith(give)
    line = refuse(capsys, adapter, out, "--base", adapter)
    assert line == f"{adapter}: is an adapter, and so is its base {adapter}; that must hold full weights{give}"
    assert not out.exists()


def test_an_adapter_for_another_base_is_refused_in_one_line(tmp_path):
    make_run(tmp_path / "a", "gpt2", "peft=lora")
    adapter = tmp_path / "a" / "model"
    bases = {
        "another architecture": compose("qwen2"),
        "fewer layers": compose("gpt2", "model.init.num_hidden_layers=1"),
        "another width": compose("gpt2", "model.init.hidden_size=32"),
    }
    for name, other in bases.items():
        base = resolve_model(other, tmp_path / name).path
        cfg = compose_config(["model=gpt2", f"model.path={adapter}", f"model.base={base}", "device=cpu"])
        with pytest.raises(ConfigError) as error:
            resolve_model(cfg, tmp_path / "run")
        (line,) = error.value.problems
        assert line.startswith(f"model.path={adapter}: is an adapter that does not fit {base} ("), line
        assert line.endswith("; set model.base=FOLDER to the one it was trained on"), line
        assert "\n" not in line and len(line) < 600
        assert not (tmp_path / "run" / "start_model").exists()


def test_a_base_that_is_gone_is_refused_in_one_line(tmp_path):
    make_run(tmp_path / "a", "gpt2", "peft=lora")
    adapter = tmp_path / "a" / "model"
    config = json.loads((adapter / "adapter_config.json").read_text())
    (adapter / "adapter_config.json").write_text(json.dumps({**config, "base_model_name_or_path": "/gone/x"}))
    cfg = compose_config(["model=gpt2", f"model.path={adapter}", "model.parameters=1e6", "device=cpu"])
    for attempt in (lambda: resolve_model(cfg, tmp_path / "run"), lambda: load_policy(locate_start_model(cfg))):
        with pytest.raises(ConfigError) as error:
            attempt()
        (line,) = error.value.problems
        assert line.startswith(f"model.path={adapter}: is an adapter for /gone/x, which cannot be loaded (")
        assert line.endswith("; set model.base=FOLDER to the one it was trained on")
    cfg = compose_config(["model=gpt2", f"model.path={adapter}", f"model.base={tmp_path}/a/start_model", "device=cpu"])
    assert load_policy(resolve_model(cfg, tmp_path / "run")).config.model_type == "gpt2"


@pytest.mark.parametrize("task_type", [None, "QUESTION_ANS"])
def test_an_adapter_of_another_kind_is_refused_in_one_line(task_type, tmp_path):
    make_run(tmp_path / "a", "gpt2", "peft=lora")
    adapter = tmp_path / "a" / "model"
    config = json.loads((adapter / "adapter_config.json").read_text())
    (adapter / "adapter_config.json").write_text(json.dumps({**config, "task_type": task_type}))
    cfg = compose_config(["model=gpt2", f"model.path={adapter}", "device=cpu"])
    with pytest.raises(ConfigError) as error:
        resolve_model(cfg, tmp_path / "run")
    shown = task_type or "null"
    assert error.value.problems == [
        f"model.path={adapter}: is an adapter of task type {shown}; must be CAUSAL_LM or SEQ_CLS"
    ]


def test_the_adapter_is_what_the_configuration_says():
    config = build_peft_config(compose("gpt2", "peft=lora", "peft.lora.r=3", "peft.lora.lora_alpha=5", "algo=dpo"))
    assert (config.r, config.lora_alpha, config.lora_dropout, config.target_modules) == (3, 5, 0.0, "all-linear")
    assert (config.task_type, config.modules_to_save) == ("CAUSAL_LM", None)
    config = build_peft_config(compose("gpt2", "peft=qlora", "algo=reward_model"))
    assert (config.task_type, config.modules_to_save) == ("SEQ_CLS", ["score"])
