import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

from rlhf_exp.config.compose import compose_config
from rlhf_exp.models.loading import adapt_template, load_policy, load_scorer, load_tokenizer, resolve_model
from rlhf_exp.models.source import locate_reward_model, locate_start_model
from tests.models.tiny import ARCHITECTURES, CONTEXT, compose, logits, make_trainer, of_folder, refusal


def test_an_untrained_model_is_made_once_and_is_seeded(tmp_path):
    cfg = compose_config(["algo=sft", "model=tiny_untrained", "seed=3"])
    first, again = resolve_model(cfg, tmp_path / "a"), resolve_model(cfg, tmp_path / "b")
    other = resolve_model(compose_config(["algo=sft", "model=tiny_untrained", "seed=4"]), tmp_path / "c")
    before = again.identify()
    assert first.identify() == before != other.identify()
    file = tmp_path / "b" / "start_model" / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"rms_norm_eps": 0.1}))
    assert again.identify() != before
    assert resolve_model(cfg, tmp_path / "a") == first
    weights = load_file(f"{first.path}/model.safetensors")
    assert sum(tensor.numel() for tensor in weights.values()) < 1_000_000


def lose(folder, *names):
    """Take the tensors out of the files of a model."""
    Path(folder, "manifest.json").unlink(missing_ok=True)
    for file in Path(folder).glob("*.safetensors"):
        tensors = {name: tensor for name, tensor in load_file(file).items() if not name.endswith(names)}
        save_file(tensors, file, metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("architecture", "lost", "shard"),
    [("gpt2", ("h.0.attn.c_attn.bias",), "50GB"), ("qwen3", ("0.mlp.up_proj.weight", "model.norm.weight"), "40KB")],
)
def test_a_model_whose_files_lack_tensors_is_refused_by_their_names(architecture, lost, shard, tmp_path):
    source = resolve_model(compose(architecture), tmp_path)
    model = load_policy(source)
    count = len(model.state_dict())
    model.save_pretrained(tmp_path / "model", max_shard_size=shard)
    load_tokenizer(source).save_pretrained(tmp_path / "model")
    lose(tmp_path / "model", *lost)
    line = refusal(load_policy, locate_start_model(of_folder(tmp_path / "model")))
    said, names = line.removeprefix(f"model.path={tmp_path / 'model'}: ").split(" tensors are in none of its files: ")
    assert said == f"{len(lost)} of {count}" and all(name in names for name in lost)


@pytest.fixture
def folder(tmp_path):
    """A model as it comes from elsewhere, whose files may be changed."""
    folder = Path(resolve_model(compose("gpt2"), tmp_path).path)
    (folder / "manifest.json").unlink()
    return folder


def test_the_tokenizer_knows_the_models_context(folder, tmp_path):
    for architecture in ARCHITECTURES:
        source = resolve_model(compose(architecture), tmp_path / architecture)
        assert load_tokenizer(source).model_max_length == CONTEXT
    shorter = AutoTokenizer.from_pretrained(folder)
    shorter.model_max_length = 7
    shorter.save_pretrained(folder)
    assert load_tokenizer(locate_start_model(of_folder(folder))).model_max_length == 7


def test_eos_serves_where_there_is_no_pad_token_and_with_neither_it_is_refused(folder):
    source = locate_start_model(of_folder(folder))
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings = {key: value for key, value in settings.items() if not key.endswith("_token")}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | {"eos_token": "<eos>"}))
    assert load_tokenizer(source).pad_token == "<eos>"
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    line = f"model.path={folder}: its tokenizer has neither a pad nor an EOS token"
    assert refusal(load_tokenizer, source).startswith(line)


@pytest.mark.parametrize("kind", ["pad", "eos"])
def test_a_pad_or_end_token_that_the_model_has_no_embedding_for_is_refused(kind, folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    size = len(tokenizer)
    tokenizer.add_special_tokens({f"{kind}_token": "[NEW]"})
    tokenizer.save_pretrained(folder)
    line = refusal(load_tokenizer, locate_start_model(of_folder(folder)))
    assert f": its tokenizer's {kind} token is {size}, [NEW], and the model has embeddings of 0 to {size - 1};" in line
    assert line.endswith(f"or call model.resize_token_embeddings({size + 1})")


def test_a_hub_that_cannot_be_reached_names_the_local_way(monkeypatch):
    def fail(*args, **kwargs):
        raise OSError("We couldn't connect to the hub.\nMore lines.")

    for kind in (AutoTokenizer, AutoConfig):
        monkeypatch.setattr(kind, "from_pretrained", fail)
    source = locate_start_model(compose_config(["model=gpt2", "device=cpu"]))
    said = "cannot be loaded (We couldn't connect to the hub. More lines.); without a network use a folder"
    for load in (load_tokenizer, load_policy):
        assert refusal(load, source).startswith(f"model.path=openai-community/gpt2: {said}")
    assert refusal(load_reward_model, with_reward("org/name")).startswith(f"reward.path=org/name: {said}")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"_attn_implementation": "kernels-community/flash-attn2"}, "its config.json asks for attention by the code"),
        ({"dtype": "float99"}, "cannot be loaded (module 'torch' has no attribute 'float99')"),
    ],
)
def test_a_config_that_asks_for_what_is_not_there_is_one_line(change, said, folder):
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    line = refusal(load_policy, locate_start_model(of_folder(folder)))
    assert line.startswith(f"model.path={folder}: {said}")


def test_thinking_is_told_to_a_template_that_knows_it():
    template = "{% if enable_thinking is false %}<think></think>{% endif %}"
    marks = {"null": "", "true": "{%- set enable_thinking = true %}", "false": "{%- set enable_thinking = false %}"}
    for thinking, mark in marks.items():
        tokenizer = SimpleNamespace(chat_template=template)
        source = locate_start_model(compose_config(["device=cpu", f"model.enable_thinking={thinking}"]))
        for _ in range(2):  # a saved tokenizer has it already
            adapt_template(source, tokenizer)
            assert tokenizer.chat_template == mark + template
    line = refusal(adapt_template, source, SimpleNamespace(chat_template="{{ messages }}"))
    assert line.startswith("model.enable_thinking=false: model=tiny has ") and line.endswith("must be null")


# Reward models.


@pytest.mark.parametrize(("architecture", "peft"), [("gpt2", "none"), ("qwen3", "qlora")])
def test_the_untrained_head_is_the_one_that_training_starts_from(architecture, peft, tmp_path):
    overrides = ["algo=reward_model", f"peft={peft}", "seed=5"]
    trainer, cfg = make_trainer(tmp_path, architecture, *overrides), compose(architecture, *overrides)
    torch.rand(3)
    scorer = load_scorer(resolve_model(cfg, tmp_path), cfg.seed)
    head = [tensor for name, tensor in trainer.model.named_parameters() if "score" in name]
    assert len(head) == (2 if peft == "qlora" else 1)
    assert all(torch.equal(scorer.score.weight, tensor) for tensor in head)
    assert torch.equal(logits(scorer), logits(trainer.model.eval()))
    assert logits(scorer).shape == (2, 1)


def save_scorer(folder, architecture="qwen3", labels=1):
    source = resolve_model(compose(architecture), folder)
    model = AutoModelForSequenceClassification.from_pretrained(source.path, num_labels=labels)
    model.save_pretrained(folder / "model")
    load_tokenizer(source).save_pretrained(folder / "model")


def test_a_reward_model_without_its_head_is_refused(tmp_path):
    save_scorer(tmp_path)
    lose(tmp_path / "model", "score.weight")
    line = refusal(load_reward_model, with_reward(tmp_path / "model"))
    assert " tensors are in none of its files: score.weight;" in line


def load_reward_model(cfg):
    source = locate_reward_model(cfg)
    return load_scorer(source), load_tokenizer(source)


def with_reward(path, *overrides):
    return compose_config(["task=hh_rlhf", "reward=model", f"reward.path={path}", "device=cpu", *overrides])


@pytest.mark.parametrize("peft", ["lora", "qlora"])
def test_a_runs_reward_model_is_loaded_as_it_was_trained(peft, tmp_path):
    cfg = compose("qwen2", "algo=reward_model", f"peft={peft}")
    trainer = make_trainer(tmp_path, "qwen2", "algo=reward_model", f"peft={peft}", "algo.args.max_steps=1")
    trainer.train()
    trainer.save_model(str(tmp_path / "model"))
    (tmp_path / ".hydra").mkdir()
    quantization = "{load_in_4bit: true, bnb_4bit_quant_type: nf4, bnb_4bit_compute_dtype: bfloat16,"
    quantization = f"{quantization} bnb_4bit_use_double_quant: true}}" if peft == "qlora" else "null"
    (tmp_path / ".hydra" / "config.yaml").write_text(
        f"model: {{dtype: {cfg.peft.dtype}}}\npeft: {{quantization: {quantization}}}\n"
    )
    model, _ = load_reward_model(with_reward(tmp_path))
    assert model.dtype == trainer.model.dtype
    assert torch.equal(logits(model), logits(trainer.model.eval()))
    assert torch.equal(logits(model), logits(load_scorer(locate_start_model(cfg).at(tmp_path / "model"))))


def test_what_is_no_reward_model_is_refused_in_one_line(tmp_path):
    save_scorer(tmp_path, labels=3)
    many, run = tmp_path / "model", tmp_path / "run"
    (run / ".hydra").mkdir(parents=True)
    (run / ".hydra" / "config.yaml").write_text("{}")
    sizes = "its weights are of other sizes than its config.json says: score.weight"
    for folder, line in ((many, sizes), (run, "a run that has saved no model")):
        assert refusal(load_reward_model, with_reward(folder)).startswith(f"reward.path={folder}: {line}")


@pytest.mark.parametrize("peft", ["none", "lora"])
def test_a_reward_model_is_no_policy(peft, tmp_path):
    make_trainer(tmp_path, "gpt2", "algo=reward_model", f"peft={peft}").save_model(str(tmp_path / "model"))
    line = refusal(load_policy, locate_start_model(of_folder(tmp_path / "model", "algo=dpo")))
    assert line == f"model.path={tmp_path / 'model'}: holds a reward model; must be a language model"
