import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer

from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.model_shape import ASSETS
from rlhf_exp.models.loading import load_policy, load_scorer, load_tokenizer, resolve_model, set_thinking
from rlhf_exp.models.source import locate_reward_model, locate_start_model
from rlhf_exp.models.untrained import build_trace_tokenizer
from tests.models.tiny import ARCHITECTURES, CONTEXT, IDS, compose, logits, make_trainer, of_folder, refusal


@pytest.mark.parametrize(
    ("overrides", "name"),
    [
        ([], "tiny"),
        (["model=gpt2"], "gpt2"),
        (["model.path=org/other", "model.parameters=1e6"], "org/other"),
        (["model=gpt2", "model.path=FOLDER/run/model", "model.parameters=1e6"], "run/model"),
    ],
)
def test_a_model_is_named_by_its_option_or_by_the_path_that_was_given(overrides, name, tmp_path):
    (tmp_path / "run" / "model").mkdir(parents=True)
    (tmp_path / "run" / "model" / "config.json").write_text("{}")
    cfg = compose_config([text.replace("FOLDER", str(tmp_path)) for text in overrides])
    assert locate_start_model(cfg).name == name


# The model that ships.


def test_the_shipped_model_is_small_and_loads_with_its_tokenizer_alone(tmp_path):
    folder = ASSETS / "tiny"
    assert sum(file.stat().st_size for file in folder.iterdir()) < 6_000_000
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    assert model.config.model_type == "qwen3" and model.config.vocab_size == len(tokenizer)
    assert not any(file.suffix in (".bin", ".pt", ".pkl") for file in folder.iterdir())
    build_trace_tokenizer().save_pretrained(tmp_path)
    assert (tmp_path / "tokenizer.json").read_bytes() == (folder / "tokenizer.json").read_bytes()


# Where the start model is, and what identifies it.


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


# Weights. With adapters: test_adapters.py.


def lose(folder, *names, more=()):
    """Take the tensors out of the files of a model, and put others into them."""
    Path(folder, "manifest.json").unlink(missing_ok=True)
    for file in Path(folder).glob("*.safetensors"):
        tensors = {name: tensor for name, tensor in load_file(file).items() if not name.endswith(names)}
        save_file(tensors | {name: torch.ones(2) for name in more}, file, metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("architecture", "lost"),
    [
        ("gpt2", ("h.0.attn.c_attn.bias",)),
        ("qwen2", ("embed_tokens.weight",)),
        ("qwen3", ("0.mlp.up_proj.weight", "model.norm.weight")),
    ],
)
@pytest.mark.parametrize("shard", ["50GB", "40KB"])
def test_a_model_whose_files_lack_tensors_is_refused_by_their_names(architecture, lost, shard, tmp_path):
    source = resolve_model(compose(architecture), tmp_path)
    model = load_policy(source)
    count = len(model.state_dict())
    model.save_pretrained(tmp_path / "model", max_shard_size=shard)
    load_tokenizer(source).save_pretrained(tmp_path / "model")
    lose(tmp_path / "model", *lost)
    files = len([*(tmp_path / "model").glob("*.safetensors")])
    assert (files > 1) == (shard == "40KB")
    line = refusal(load_policy, locate_start_model(of_folder(tmp_path / "model")))
    said, names = line.removeprefix(f"model.path={tmp_path / 'model'}: ").split(" tensors are in none of its files: ")
    assert said == f"{len(lost)} of {count}" and all(name in names for name in lost)


def test_tensors_that_a_model_does_not_have_are_told_once(tmp_path, capsys):
    source = resolve_model(compose("qwen3"), tmp_path)
    lose(source.path, more=[f"mtp.{i}" for i in range(5)])
    load_policy(source)
    load_policy(source)
    assert (
        capsys.readouterr().out
        == f"{source.path}: 5 tensors of its files are not used: mtp.0, mtp.1, mtp.2 and 2 more\n"
    )


# Tokenizers.


def test_the_tokenizer_knows_the_models_context(tmp_path):
    for architecture in ARCHITECTURES:
        source = resolve_model(compose(architecture), tmp_path / architecture)
        assert load_tokenizer(source).model_max_length == CONTEXT
    shorter = AutoTokenizer.from_pretrained(source.path)
    shorter.model_max_length = 7
    shorter.save_pretrained(source.path)
    Path(source.path, "manifest.json").unlink()
    assert load_tokenizer(source).model_max_length == 7


def test_eos_serves_where_there_is_no_pad_token_and_with_neither_it_is_refused(tmp_path):
    source = resolve_model(compose("gpt2"), tmp_path)
    folder = Path(source.path)
    (folder / "manifest.json").unlink()
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings = {key: value for key, value in settings.items() if not key.endswith("_token")}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | {"eos_token": "<eos>"}))
    assert load_tokenizer(source).pad_token == "<eos>"
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    source = locate_start_model(of_folder(folder))
    line = f"model.path={folder}: its tokenizer has neither a pad nor an EOS token"
    assert refusal(load_tokenizer, source).startswith(line)


@pytest.mark.parametrize("kind", ["pad", "eos"])
def test_a_pad_or_end_token_that_the_model_has_no_embedding_for_is_refused(kind, tmp_path):
    source = resolve_model(compose("gpt2"), tmp_path)
    Path(source.path, "manifest.json").unlink()
    tokenizer = AutoTokenizer.from_pretrained(source.path)
    size = len(tokenizer)
    tokenizer.add_special_tokens({f"{kind}_token": "[NEW]"})
    tokenizer.save_pretrained(source.path)
    line = refusal(load_tokenizer, locate_start_model(of_folder(source.path)))
    assert f": its tokenizer's {kind} token is {size}, [NEW], and the model has embeddings of 0 to {size - 1};" in line
    assert line.endswith(f"or call model.resize_token_embeddings({size + 1})")


def test_a_hub_that_cannot_be_reached_names_the_local_way(monkeypatch):
    def fail(*args, **kwargs):
        raise OSError("We couldn't connect to the hub.\nMore lines.")

    for kind in (AutoTokenizer, AutoConfig):
        monkeypatch.setattr(kind, "from_pretrained", fail)
    source = locate_start_model(compose_config(["model=gpt2", "device=cpu"]))
    cfg = compose_config(["task=hh_rlhf", "reward=model", "reward.path=org/name", "device=cpu"])
    said = "cannot be loaded (We couldn't connect to the hub.); without a network use a folder"
    for load, given, line in (
        (load_tokenizer, source, f"model.path=openai-community/gpt2: {said}"),
        (load_policy, source, f"model.path=openai-community/gpt2: {said}"),
        (load_reward_model, cfg, f"reward.path=org/name: {said}"),
    ):
        assert refusal(load, given).startswith(line)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"_attn_implementation": "kernels-community/flash-attn2"},
            "its config.json asks for attention by the code of ",
        ),
        ({"_attn_implementation": "nonsense"}, "cannot be loaded (Specified `attn_implementation"),
        ({"dtype": "float99"}, "cannot be loaded (module 'torch' has no attribute 'float99')"),
    ],
)
def test_a_config_that_asks_for_what_is_not_there_is_one_line(change, said, tmp_path):
    source = resolve_model(compose("gpt2"), tmp_path)
    Path(source.path, "manifest.json").unlink()
    file = Path(source.path, "config.json")
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    line = refusal(load_policy, locate_start_model(of_folder(source.path)))
    assert line.startswith(f"model.path={source.path}: {said}")


# Thinking.


def test_thinking_is_told_to_a_template_that_knows_it():
    template = "{% if enable_thinking is false %}<think></think>{% endif %}"
    marks = {"null": "", "true": "{%- set enable_thinking = true %}", "false": "{%- set enable_thinking = false %}"}
    for thinking, mark in marks.items():
        tokenizer = SimpleNamespace(chat_template=template)
        source = locate_start_model(compose_config(["device=cpu", f"model.enable_thinking={thinking}"]))
        for _ in range(2):  # a saved tokenizer has it already
            set_thinking(source, tokenizer)
            assert tokenizer.chat_template == mark + template


@pytest.mark.parametrize("template", [None, "{{ messages }}"])
def test_thinking_is_refused_where_the_template_does_not_know_it(template):
    source = locate_start_model(compose_config(["device=cpu", "model.enable_thinking=false"]))
    line = refusal(set_thinking, source, SimpleNamespace(chat_template=template))
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


def test_a_new_head_is_told_and_a_reward_model_without_its_own_is_refused(tmp_path, capsys):
    save_scorer(tmp_path)
    source = resolve_model(compose("qwen3"), tmp_path)
    load_scorer(source, seed=0)
    head = "its head as a reward model is new, drawn by the seed: score.weight"
    assert capsys.readouterr().out == f"{source.path}: a language model; {head}\n"
    lose(tmp_path / "model", "score.weight")
    line = refusal(load_reward_model, with_reward(tmp_path / "model"))
    assert " tensors are in none of its files: score.weight;" in line
    lose(source.path, "model.norm.weight")
    assert " tensors are in none of its files: model.norm.weight;" in refusal(load_scorer, source, 0)


def load_reward_model(cfg):
    source = locate_reward_model(cfg)
    return load_scorer(source), load_tokenizer(source)


def with_reward(path, *overrides):
    return compose_config(["task=hh_rlhf", "reward=model", f"reward.path={path}", "device=cpu", *overrides])


@pytest.mark.parametrize("architecture", ["gpt2", "qwen3"])
def test_a_reward_model_scores_the_last_token_that_is_not_padding(architecture, tmp_path):
    save_scorer(tmp_path, architecture)
    model, tokenizer = load_reward_model(with_reward(tmp_path / "model"))
    assert model.config.pad_token_id == tokenizer.pad_token_id == 0 and not model.training
    for side in ("left", "right"):
        padding = torch.zeros(2, 3, dtype=torch.long)
        ids = torch.cat([padding, IDS] if side == "left" else [IDS, padding], 1)
        with torch.no_grad():
            scores = model(input_ids=ids, attention_mask=(ids != 0).long()).logits
        assert torch.allclose(scores, logits(model), atol=1e-5)


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
    for folder, line in {
        many: "cannot be loaded (its weights are of other sizes",
        run: "a run that has saved no model",
    }.items():
        assert refusal(load_reward_model, with_reward(folder)).startswith(f"reward.path={folder}: {line}")


@pytest.mark.parametrize("peft", ["none", "lora"])
def test_a_reward_model_is_no_policy(peft, tmp_path):
    make_trainer(tmp_path, "gpt2", "algo=reward_model", f"peft={peft}").save_model(str(tmp_path / "model"))
    cfg = of_folder(tmp_path / "model", "algo=dpo")
    line = f"model.path={tmp_path / 'model'}: holds a reward model; must be a language model"
    assert refusal(load_policy, locate_start_model(cfg)) == line
