"""What a model brings is not inherited by another: rates, batches, precision and budgets by size, peft and task."""

import json
from pathlib import Path

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
    assert shape.parameters == count_on_meta(shape.values)[0]


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


RATES = ("grpo", "ppo", "sft", "dpo", "reward_model")
OWN = {
    "tiny": (1e-3, 5e-4, 1e-3, 1e-4, 5e-4), "tiny_untrained": (5e-4, 5e-4, 3e-3, 1e-4, 5e-4),
    "tiny_gpt2": (1e-3, 1e-3, 3e-3, 1e-4, 1e-3),
}  # fmt: skip


@pytest.mark.parametrize("model", OWN)
@pytest.mark.parametrize("peft", ["none", "lora"])
def test_tiny_models_keep_their_recipes(model, peft):
    for algo, rate in zip(RATES, OWN[model], strict=True):
        cfg = compose_config([f"algo={algo}", f"model={model}", f"peft={peft}", "device=cpu"])
        assert read(cfg, *RECIPE) == (rate, ALGORITHMS[algo].batch, 1, False)
        assert (cfg.max_tokens, cfg.model.dtype) == (96, "float32")


LR, ROWS, PASSES, ROLLOUT = "learning_rate", *RECIPE[1:3], "steps_per_generation"
ARGS = f"algo.args.{LR}=3e-4 algo.args.{PASSES}=8"
STEPS = {"max_steps": -1, "warmup_steps": 0.03, "save_steps": 0.25}


@pytest.mark.parametrize(
    ("typed", "args"),
    [
        ("device=cpu", {"num_generations": 16, "max_steps": 110, "save_steps": 55}),
        ("algo=ppo", {"max_steps": 320, ROLLOUT: 4}),
        ("algo=sft", {"max_steps": 8_000, "warmup_steps": 100, "save_steps": 1_000}),
        # By epochs where rows are finite and not where they are drawn; and long for a tiny model.
        *((f"algo=sft {rows}", STEPS) for rows in ("task=gsm8k", "task=hh_rlhf", "task.samples=self")),
        ("algo=sft task.train_rows=64", STEPS), ("algo=sft model=qwen3_1_7b", STEPS | {"max_steps": 700}),
        # By length, the first batches are the longest rows: a short run would see no other.
        *((f"algo=sft algo.args.max_steps={n}", {"train_sampling_strategy": order})
          for n, order in {12: "random", 199: "random", 200: "group_by_length", -1: "group_by_length"}.items()),
        # Another model inherits nothing of tiny's.
        ("model.path={7B} device=cpu", dict(zip(RECIPE, (1e-6, 2, 64, True), strict=True))),
        ("model.path={7B} device=cpu peft=lora", dict(zip(RECIPE, (1e-5, 2, 64, True), strict=True))),
        ("model.path={7B} algo=sft peft=lora", {LR: 5e-5}), ("model.path={ADAPTER}", {LR: 1e-6}),
        ("model.path={7B} algo=ppo algo.args.critic=separate",
         {LR: 1e-6, PASSES: 16, ROLLOUT: 64, "critic_learning_rate": 1e-5}),
        # What the user says wins.
        (f"model.path={{7B}} {ARGS}", {LR: 3e-4, PASSES: 8}), ("model.parameters=1e8", {LR: 1e-5}),
        ("model.path={7B} model.learning_rate.grpo=1e-3", {LR: 1e-3}), ("model.parameters=7e9", {LR: 1e-6}),
        # Rows of the user's are accumulated to the same step.
        (f"model=qwen3_1_7b algo.args.{ROWS}=16", {PASSES: 8}), (f"model=gpt2 algo.args.{ROWS}=256", {PASSES: 1}),
        (f"model=gpt2 task=gsm8k algo.args.{ROWS}=128", {PASSES: 1}), (f"algo.args.{ROWS}=16", {PASSES: 1}),
        (f"model=qwen3_1_7b algo=ppo algo.args.{ROWS}=8", {PASSES: 4, ROLLOUT: 16}),
    ],
)  # fmt: skip
def test_arguments_follow_from_algorithm_model_and_rows(typed, args, llama_7b, tmp_path):
    (tmp_path / "adapter").mkdir()
    (tmp_path / "adapter" / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(llama_7b)}))
    typed = typed.replace("{7B}", str(llama_7b)).replace("{ADAPTER}", str(tmp_path / "adapter"))
    cfg = compose_config(typed.split())
    assert {name: cfg.algo.args[name] for name in args} == args


@pytest.mark.parametrize(
    ("typed", "tokens"),
    [("device=cpu", 96), ("model.path={7B}", 512), ("model.path={7B} max_tokens=7", 7),
     *((f"task={task} model=qwen3_1_7b", n) for task, n in {"countdown": 512, "gsm8k": 512, "brevity": 32}.items())],
)  # fmt: skip
def test_the_budget_is_the_tasks(typed, tokens, llama_7b):
    assert compose_config(typed.replace("{7B}", str(llama_7b)).split()).max_tokens == tokens


def test_a_dry_run_says_why_a_step_is_accumulated():
    typed = ["model=qwen3_1_7b", f"algo.args.{ROWS}=16"]
    reason = "128 completions per step, 16 of them at once"
    assert f"algo.args.gradient_accumulation_steps=8: {reason}" in list_chosen(compose_config(typed))


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
    chosen = [f"algo={algo}", *["teacher.path=org/x"] * ALGORITHMS[algo].has_teacher]
    cfg = compose_config([*chosen, f"model={model}", "task=hh_rlhf", "reward=model", "reward.path=org/x"])
    rate, rows, accumulated, checkpointing = read(cfg, *RECIPE)
    small = compose_config(chosen).algo.args["learning_rate"]
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


def test_a_cached_config_json_is_read(tmp_path, monkeypatch):
    snapshot = tmp_path / "models--org--name" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text(json.dumps(LLAMA_7B))
    (tmp_path / "models--org--name" / "refs").mkdir()
    (tmp_path / "models--org--name" / "refs" / "main").write_text("abc")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert compose_config(["model.path=org/name"]).algo.args["learning_rate"] == 1e-6


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


@pytest.mark.parametrize("of_answers", ["", "reward=outcome"])
def test_rows_without_answers_take_no_grade_as_a_reward(of_answers, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("rows.jsonl").write_text('{"prompt": "a", "good": "b", "bad": "c"}\n')
    Path("own.py").write_text("def own(completions, **kwargs):\n    return [0.0] * len(completions)\n")
    rows, own = f"task=file task.path=rows.jsonl {of_answers}", "+reward.functions.own=own.py:own +reward.weights.own=2"
    cases = {
        "algo=none": {}, "algo=sft task.completion_column=good": {}, own: {"own": 2},
        f"task.answer_column=good {own}": {"outcome": 1.0, "own": 2},
    }  # fmt: skip
    for typed, weights in cases.items():
        assert compose_config(f"{rows} {typed}".split()).reward.weights == weights
    with pytest.raises(ConfigError, match="^algo=grpo: needs a reward; set task.answer_column"):
        compose_config(rows.split())
