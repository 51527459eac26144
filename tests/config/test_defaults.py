"""What a model brings is not inherited by another: rates, batches, precision and budgets by size, peft and task."""

import json

import pytest
import torch
from safetensors.torch import save
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, LlamaConfig

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.config import device
from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.defaults import explain_rows
from rlhf_exp.config.model_shape import INIT_VOCABULARY, KNOWN, find_shape
from rlhf_exp.dry_run.describe import list_chosen
from rlhf_exp.errors import ConfigError
from rlhf_exp.models.untrained import build_tokenizer

LLAMA_7B = LlamaConfig(max_position_embeddings=4_096).to_dict()  # of 7 billion parameters by default
OPTIONS = {
    "openai-community/gpt2": 124_439_808,
    "Qwen/Qwen2.5-0.5B-Instruct": 494_032_768,
    "Qwen/Qwen2.5-3B": 3_085_938_688,
    "Qwen/Qwen3-1.7B": 1_720_574_976,
    "HuggingFaceTB/SmolLM2-135M-Instruct": 134_515_008,
}
SIZES = {"hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3, "num_attention_heads": 4}
SHIPPED = json.loads(KNOWN.read_text())
SHAPES = [
    {"model_type": "gpt2", **SIZES},
    {"model_type": "gpt2", **SIZES, "tie_word_embeddings": False, "max_position_embeddings": 64},
    {"model_type": "qwen2", **SIZES, "num_key_value_heads": 2, "tie_word_embeddings": True},
    {"model_type": "qwen3", **SIZES, "num_key_value_heads": 2, "head_dim": 16},
    {"model_type": "qwen3", **SIZES, "num_key_value_heads": 4, "attention_bias": True, "tie_word_embeddings": True},
    {"model_type": "llama", **SIZES, "num_key_value_heads": 2},
    {"model_type": "llama", **SIZES, "attention_bias": True, "mlp_bias": True},
]


def count_on_meta(values):
    values = dict(values)
    config = CONFIG_MAPPING[values.pop("model_type")](**values)
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(config).num_parameters(), config


@pytest.mark.parametrize("values", SHAPES)
def test_a_config_json_without_weights_says_about_how_many_parameters_there_are(values, tmp_path):
    counted, config = count_on_meta({**values, "vocab_size": 5_000})
    config.save_pretrained(tmp_path)
    assert find_shape(str(tmp_path), None, None, None).parameters == pytest.approx(counted, rel=0.05)


@pytest.mark.parametrize("hub_id", SHIPPED)
def test_the_shapes_that_ship_are_those_of_their_models(hub_id):
    shape = find_shape(hub_id, None, None, None)
    assert shape.parameters == OPTIONS[hub_id] == count_on_meta(shape.values)[0]


def test_the_models_that_ship_and_the_untrained_ones_are_counted():
    assert find_shape(None, None, None, "tiny").parameters == 910_720
    for kind, size in INIT_VOCABULARY.items():
        assert len(build_tokenizer({"tokenizer": kind, "architecture": "qwen3"})) == size


FOREIGN = {
    "opt": SIZES | {"ffn_dim": 64, "word_embed_proj_dim": 48},
    "mixtral": {**SIZES, "num_key_value_heads": 2, "num_local_experts": 4},
    "gemma": {**SIZES, "num_key_value_heads": 2, "head_dim": 12},  # its head is tied without a word in config.json
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_stored_weights_say_how_many_there_are(kind, tmp_path):
    model = AutoModelForCausalLM.from_config(CONFIG_MAPPING[kind](**FOREIGN[kind], vocab_size=99, pad_token_id=0))
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    shape = find_shape(str(tmp_path), None, None, None)
    assert (shape.parameters, shape.source) == (model.num_parameters(), f"the weights of {tmp_path}")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    assert compose_config([f"model.path={tmp_path}"]).algo.args["learning_rate"] == 1e-3


@pytest.mark.parametrize(
    "content",
    [b"", b"\x05", b"\xff" * 40, b"\x02\0\0\0\0\0\0\0[]", b"\x02\0\0\0\0\0\0\0{}", b'\x07\0\0\0\0\0\0\0{"w":1}',
     save({"w": torch.zeros(9, dtype=torch.uint8), "x": torch.zeros(3)})],
)  # fmt: skip
def test_broken_and_packed_weights_leave_the_shape_to_config_json(content, llama_7b):
    (llama_7b / "config.json").write_text(json.dumps({**LLAMA_7B, "model_type": "other"}))
    (llama_7b / "model.safetensors").write_bytes(content)
    assert find_shape(str(llama_7b), None, None, None).parameters == pytest.approx(6_738_415_616, rel=0.01)


@pytest.fixture
def llama_7b(tmp_path):
    folder = tmp_path / "llama"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA_7B))
    return folder


def read(cfg, *names):
    return tuple(cfg.algo.args.get(name) for name in names)


RECIPE = ("learning_rate", "per_device_train_batch_size", "gradient_accumulation_steps", "activation_checkpointing")


def test_the_default_runs_are_what_they_were():
    cfg = compose_config(["device=cpu"])
    assert read(cfg, "num_generations", "max_steps", "save_steps") == (16, 110, 55)
    assert cfg.eval.batch_size == 128
    assert read(compose_config(["algo=sft"]), "max_steps", "warmup_steps", "save_steps") == (8_000, 100, 1_000)
    assert read(compose_config(["algo=ppo"]), "max_steps", "steps_per_generation") == (320, 4)


OWN = {
    "tiny": {"grpo": 1e-3, "ppo": 5e-4, "sft": 1e-3, "dpo": 1e-4, "reward_model": 5e-4},
    "tiny_untrained": {"grpo": 5e-4, "ppo": 5e-4, "sft": 3e-3, "dpo": 1e-4, "reward_model": 5e-4},
    "tiny_gpt2": {"grpo": 1e-3, "ppo": 1e-3, "sft": 3e-3, "dpo": 1e-4, "reward_model": 1e-3},
}


@pytest.mark.parametrize("model", OWN)
@pytest.mark.parametrize("peft", ["none", "lora"])
def test_tiny_models_keep_their_recipes(model, peft):
    for algo, rate in OWN[model].items():
        cfg = compose_config([f"algo={algo}", f"model={model}", f"peft={peft}", "device=cpu"])
        assert read(cfg, *RECIPE) == (rate, ALGORITHMS[algo].batch, 1, False)
        assert (cfg.max_tokens, cfg.model.dtype) == (96, "float32")


def test_another_model_inherits_nothing_of_tinys(llama_7b):
    cfg = compose_config([f"model.path={llama_7b}", "device=cpu"])
    assert read(cfg, *RECIPE) == (1e-6, 2, 64, True)
    assert cfg.max_tokens == 512
    adapters = compose_config([f"model.path={llama_7b}", "peft=lora", "device=cpu"])
    assert read(adapters, *RECIPE) == (1e-5, 2, 64, True)
    assert compose_config([f"model.path={llama_7b}", "algo=sft", "peft=lora"]).algo.args["learning_rate"] == 5e-5
    ppo = compose_config([f"model.path={llama_7b}", "algo=ppo", "algo.args.critic=separate"])
    assert read(ppo, "learning_rate", "gradient_accumulation_steps", "steps_per_generation") == (1e-6, 16, 64)
    assert ppo.algo.args["critic_learning_rate"] == 1e-5


def test_what_the_user_says_wins(llama_7b):
    said = ["algo.args.learning_rate=3e-4", "max_tokens=7", "algo.args.gradient_accumulation_steps=8"]
    cfg = compose_config([f"model.path={llama_7b}", *said])
    assert (*read(cfg, "learning_rate", "gradient_accumulation_steps"), cfg.max_tokens) == (3e-4, 8, 7)
    by_key = compose_config([f"model.path={llama_7b}", "model.learning_rate.grpo=1e-3"])
    assert by_key.algo.args["learning_rate"] == 1e-3
    for size, rate in {"1e8": 1e-5, "7e9": 1e-6}.items():
        assert compose_config([f"model.parameters={size}"]).algo.args["learning_rate"] == rate


@pytest.mark.parametrize(
    ("typed", "rows", "accumulated"),
    [
        ("model=qwen3_1_7b", 16, 8), ("model=gpt2 task=gsm8k", 128, 1), ("model=tiny", 16, 1), ("model=gpt2", 256, 1),
        ("model=qwen3_1_7b algo=ppo", 8, 4),
    ],
)  # fmt: skip
def test_a_batch_of_the_users_is_accumulated_to_the_same_step(typed, rows, accumulated):
    cfg = compose_config([*typed.split(), f"algo.args.per_device_train_batch_size={rows}"])
    assert read(cfg, "per_device_train_batch_size", "gradient_accumulation_steps") == (rows, accumulated)
    reason = f"{rows * accumulated} completions per step, {rows} of them at once"
    if cfg.algo.name == "ppo":
        assert cfg.algo.args["steps_per_generation"] == 4 * accumulated
    assert f"algo.args.gradient_accumulation_steps={accumulated}: {reason}" in list_chosen(cfg)


@pytest.mark.parametrize(
    ("typed", "processes", "batch", "why"),
    [
        ("algo=reward_model", 1, (4, 8), "16 rows of 1,024 tokens keep 21.1 GB of activations, more than 1/4 of 24 GB"),
        ("algo=kto", 1, (8, 4), "16 rows of 512 tokens keep 10.6 GB of activations, more than 1/4 of 24 GB"),
        ("algo=kto task.max_length=100000", 1, (2, 16), "16 rows of 100,000 tokens keep "),  # not one row: its KL
        ("algo=ppo", 1, (8, 4), "16 rows of 512 tokens keep "),
        ("algo=dpo", 2, (4, 4), "16 rows of 1,024 tokens keep "),
        ("algo=dpo hardware=gpu_80gb dry_run=true", 1, (16, 2), "32 rows of 1,024 tokens keep "),
        ("algo=dpo algo.args.activation_checkpointing=true", 1, (16, 2), None),
        ("algo=dpo task.max_length=128", 1, (16, 2), None),
        ("algo=dpo algo.args.per_device_train_batch_size=16", 1, (16, 2), None),
    ],
)
def test_a_default_batch_is_divided_until_its_activations_fit(monkeypatch, typed, processes, batch, why):
    monkeypatch.setenv("WORLD_SIZE", str(processes))
    here = [] if "hardware" in typed else ["device=cpu"]
    cfg = compose_config(["task=hh_rlhf", "model=gpt2", "reward=brevity", *here, *typed.split()])
    assert read(cfg, "per_device_train_batch_size", "gradient_accumulation_steps") == batch
    if cfg.algo.name == "ppo":
        assert cfg.algo.args["steps_per_generation"] == 4 * batch[1]
    said = explain_rows(cfg)
    keys = f"algo.args.per_device_train_batch_size={batch[0]} algo.args.gradient_accumulation_steps={batch[1]}"
    assert said is why or said.startswith(f"{keys} by default: {why}")


@pytest.mark.parametrize("algo", [name for name, row in ALGORITHMS.items() if row.trains])
@pytest.mark.parametrize("model", ["gpt2", "qwen2_5_0_5b", "qwen2_5_3b", "qwen3_1_7b"])
def test_rates_fall_with_size_and_a_step_keeps_its_rows(algo, model):
    cfg = compose_config([f"algo={algo}", f"model={model}", "task=hh_rlhf", "reward=model", "reward.path=org/x"])
    rate, rows, accumulated, checkpointing = read(cfg, *RECIPE)
    small = compose_config([f"algo={algo}"]).algo.args["learning_rate"]
    assert rate < small / 10
    assert rows * accumulated == ALGORITHMS[algo].batch
    assert checkpointing == (model in ("qwen2_5_3b", "qwen3_1_7b"))


def test_the_readmes_lines_for_a_gpu(monkeypatch):
    monkeypatch.setattr(device, "cuda_major", lambda: 9)
    cfg = compose_config(["algo=grpo", "task=gsm8k", "model=qwen3_1_7b"])
    assert read(cfg, *RECIPE) == (1e-6, 4, 32, True)
    assert (cfg.device.bf16, cfg.device.use_cpu) == (True, False)
    assert (cfg.max_tokens, cfg.model.dtype) == (512, "float32")  # bfloat16 by autocast, on float32 weights
    lora = compose_config(["algo=grpo", "task=gsm8k", "model=qwen3_1_7b", "peft=lora"])
    assert (lora.algo.args["learning_rate"], lora.model.dtype) == (1e-5, "bfloat16")
    tiny = compose_config([])
    assert (tiny.device.bf16, tiny.model.dtype) == (False, "float32")


@pytest.mark.parametrize("task", ["task=gsm8k", "task=hh_rlhf", "task.samples=self", "task.train_rows=64"])
def test_sft_goes_by_epochs_where_its_rows_are_finite_and_not_where_they_are_drawn(task):
    names = ("max_steps", "warmup_steps", "save_steps")
    assert read(compose_config(["algo=sft", task]), *names) == (-1, 0.03, 0.25)
    drawn = compose_config(["algo=sft", "task=countdown", "model=qwen3_1_7b"])
    assert read(drawn, *names) == (700, 0.03, 0.25)  # and long for a tiny model


@pytest.mark.parametrize(("task", "budget"), [("countdown", 512), ("gsm8k", 512), ("brevity", 32)])
def test_the_budget_is_the_tasks(task, budget):
    assert compose_config([f"task={task}", "model=qwen3_1_7b"]).max_tokens == budget


def test_a_cached_config_json_is_read(tmp_path, monkeypatch):
    snapshot = tmp_path / "models--org--name" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text(json.dumps(LLAMA_7B))
    (tmp_path / "models--org--name" / "refs").mkdir()
    (tmp_path / "models--org--name" / "refs" / "main").write_text("abc")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert compose_config(["model.path=org/name"]).algo.args["learning_rate"] == 1e-6


def test_an_adapter_is_of_its_bases_size(llama_7b, tmp_path):
    (tmp_path / "adapter").mkdir()
    (tmp_path / "adapter" / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(llama_7b)}))
    assert compose_config([f"model.path={tmp_path / 'adapter'}"]).algo.args["learning_rate"] == 1e-6


GENERATED = ("task=gsm8k", "task.source=generated")


@pytest.mark.parametrize(
    ("overrides", "baselines", "rows", "completions"),
    [
        ([], True, 1_400, 4), (["model=tiny_untrained"], True, 1_400, 4), (["eval.completions=3"], True, 1_400, 6),
        (["eval.completions=8"], True, 1_400, 8), (["eval.rows=255"], False, 255, 1), (["model=gpt2"], False, 512, 1),
        (["model=gpt2", "task.baselines=true"], True, 512, 1), (GENERATED, False, 512, 1),
    ],
)  # fmt: skip
def test_a_small_model_is_measured_more_often_on_all_drawn_rows_and_beside_baselines(
    overrides, baselines, rows, completions
):
    cfg = compose_config([*overrides])
    assert (cfg.task.baselines, cfg.eval.limit, cfg.eval.start_completions) == (baselines, rows, completions)


@pytest.mark.parametrize("of_answers", [[], ["reward=outcome"]])
def test_rows_without_answers_take_no_grade_as_a_reward(of_answers, tmp_path):
    rows = ["task=file", f"task.path={tmp_path / 'rows.jsonl'}", *of_answers]
    (tmp_path / "rows.jsonl").write_text('{"prompt": "a", "good": "b", "bad": "c"}\n')
    for named in (["algo=none"], ["algo=sft", "task.completion_column=good"]):
        cfg = compose_config([*rows, *named])
        assert cfg.reward.weights == {}
    (tmp_path / "own.py").write_text("def own(completions, **kwargs):\n    return [0.0] * len(completions)\n")
    own = [f"+reward.functions.own={tmp_path / 'own.py'}:own", "+reward.weights.own=2"]
    cfg = compose_config([*rows, *own])
    assert cfg.reward.weights == {"own": 2}
    cfg = compose_config([*rows, "task.answer_column=good", *own])
    assert cfg.reward.weights == {"outcome": 1.0, "own": 2}
    with pytest.raises(ConfigError, match="^algo=grpo: needs a reward; set task.answer_column"):
        compose_config(rows)
