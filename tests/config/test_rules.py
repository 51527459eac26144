"""TRL's arguments beside our own keys: contradictions, arguments without effect, secrets."""

import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.overrides import check_overrides
from rlhf_exp.config.values import HIDDEN, assign
from rlhf_exp.errors import ConfigError
from rlhf_exp.tasks.sources import read_lines

SECRET = "a secret would be saved in the run's files; use the environment variable HF_TOKEN"
NOT_EVALUATED = "has no effect, TRL evaluates nothing here; to measure in training use eval.every"

SYNC = "+algo.args.sync_ref_model=true"
NO_REFERENCE = "which needs no reference; use algo.args.beta=0.05"
ITS_BASE = "whose reference is the base itself; use peft=none"
SCORED_ONCE = "which scores the reference once; use algo.args.precompute_ref_log_probs=false"


def refuse(*overrides):
    with pytest.raises(ConfigError) as caught:
        compose_config(["device=cpu", *overrides])
    return caught.value.problems


@pytest.mark.parametrize(
    ("override", "value", "instead"),
    [
        ("algo.args.reward_weights=[3.0]", "[1.0, 0.25]", "reward.weights"),
        ("algo.args.reward_weights=null", "[1.0, 0.25]", "reward.weights"),
        ("algo.args.max_completion_length=8", "96", "max_tokens"),
        ("algo.args.seed=3", "0", "seed"),
        ("algo.args.trust_remote_code=true", "false", "model.trust_remote_code"),
        ("algo.args.report_to=[nonsense]", "[]", "logging=wandb, tensorboard or file"),
        ("algo.args.use_cpu=false", "true", "device=cpu or device=cuda"),
        ("algo.args.bf16=true", "false", "device.bf16"),
        ("algo.args.model_init_kwargs.dtype=int8", "float32", "model.dtype"),
        ("algo.args.model_init_kwargs.attn_implementation=eager", "sdpa", "model.attn_implementation"),
    ],
)
def test_an_argument_that_a_key_of_ours_sets_is_refused_with_that_key(override, value, instead):
    assert refuse(override) == [f"{override}: is set by another key, to {value}; use {instead}"]


def test_the_folder_of_the_checkpoints_is_the_runs():
    assert refuse("output_dir=there", "algo.args.output_dir=here") == [
        "algo.args.output_dir=here: is set by another key, to there/checkpoints; use output_dir"
    ]


def test_an_argument_that_was_taken_out_is_refused():
    assert refuse("~algo.args.seed") == ["algo.args.seed=(deleted): is set by another key, to 0; use seed"]


def test_the_model_is_loaded_with_what_is_measured():
    key = "algo.args.model_init_kwargs"
    assert refuse(f"+{key}.revision=main") == [
        f"{key}.revision: no key but dtype, attn_implementation, quantization_config is allowed; the measurements"
        " would load the model without it"
    ]


@pytest.mark.parametrize("name", ["none", "lora", "qlora"])
def test_our_own_keys_pass_through(name):
    cfg = compose_config([f"peft={name}", "seed=5", "max_tokens=9", "reward=overlong", "model.trust_remote_code=true"])
    assert (cfg.algo.args["seed"], cfg.algo.args["reward_weights"]) == (5, [1.0, 0.25])


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (["peft=lora", "peft.lora=null"], "peft.lora=null: not with peft=lora, which trains an adapter; use peft=none"),
        (
            ["reward.weights={}"],
            "reward.weights={}: changes nothing, for a mapping is merged into what is there; use reward=none",
        ),
        (
            ["+algo.args.num_train_epochs=2"],
            "algo.args.num_train_epochs=2: has no effect with algo.args.max_steps=110; add algo.args.max_steps=-1",
        ),
        (["+algo.args.eval_strategy=steps"], f"algo.args.eval_strategy=steps: {NOT_EVALUATED}"),
        (["+algo.args.per_device_eval_batch_size=3"], f"algo.args.per_device_eval_batch_size=3: {NOT_EVALUATED}"),
        (["+algo.args.vllm_mode=server"], "algo.args.vllm_mode=server: has no effect without algo.args.use_vllm=true"),
        (
            ["+algo.args.vespo_k_pos=1.5"],
            "algo.args.vespo_k_pos=1.5: has no effect without algo.args.loss_type=vespo",
        ),
        (
            ["algo=ppo", "algo.args.steps_per_generation=abc"],
            "algo.args.steps_per_generation=abc: must be a whole number >= 1, <= 65536 or null",
        ),
        (
            ["+algo.args.train_sampling_strategy=group_by_length"],
            "algo.args.train_sampling_strategy=group_by_length: has no effect with algo=grpo; leave it out:"
            " algo.args.shuffle_dataset says whether rows are shuffled",
        ),
        (
            ["algo=ppo", "+algo.args.train_sampling_strategy=sequential"],
            "algo.args.train_sampling_strategy=sequential: has no effect with algo=ppo; leave it out:"
            " algo.args.shuffle_dataset says whether rows are shuffled",
        ),
        *(
            (
                [f"algo={algo}", f"+algo.args.train_sampling_strategy={order}"],
                f"algo.args.train_sampling_strategy={order}: not with algo={algo}, since a pair has no one length;"
                " must be random or sequential",
            )
            for algo, order in [("dpo", "group_by_length"), ("reward_model", "batch_rebalance")]
        ),
        (
            ["algo=kto", "+algo.args.train_sampling_strategy=group_by_length"],
            "algo.args.train_sampling_strategy=group_by_length: not with algo=kto, since its rows have no one length;"
            " leave it out",
        ),
        (["reward.weights.outcome=inf"], "reward.weights.outcome=inf: must be a number >= -1000, <= 1000 or null"),
        (["algo.args.temperature=nan"], "algo.args.temperature=nan: must be a number > 0, <= 10"),
        (
            ["+algo.args.run_name=x"],
            "algo.args.run_name=x: has no effect, use run.name",
        ),
        (
            ["+algo.args.logging_strategy=no"],
            "algo.args.logging_strategy=no: the watch for a loss that is not finite reads what is logged; leave it"
            " out, and use algo.args.logging_steps",
        ),
        (["algo.args.beta=0", SYNC], f"{SYNC[1:]}: not with algo.args.beta=0, {NO_REFERENCE}"),
        (["peft=lora", SYNC], f"{SYNC[1:]}: not with peft=lora, {ITS_BASE}"),
        (["algo=dpo", SYNC], f"{SYNC[1:]}: not with algo.args.precompute_ref_log_probs=true, {SCORED_ONCE}"),
        (["algo=dpo", "peft=lora", SYNC], f"{SYNC[1:]}: not with peft=lora, {ITS_BASE}"),
        (
            ["experiment=gsm8k_grpo", "model.learning_rate.grpo=1e-6"],
            "model.learning_rate.grpo=1e-6: has no effect, for algo.args.learning_rate is set; use"
            " algo.args.learning_rate=1e-6",
        ),
        (
            ["experiment=compare_grpo", "model.learning_rate.grpo=1e-6"],
            "model.learning_rate.grpo=1e-6: has no effect, for algo.args.learning_rate is set; use"
            " algo.args.learning_rate=1e-6",
        ),
        (["output_dir=''"], "output_dir='': must be text, and not empty"),
        (["output_dir=/"], "output_dir=/: is the root of the file system; use a folder of its own"),
    ],
)
def test_what_has_no_effect_or_no_sense_is_one_line(overrides, line):
    assert refuse(*overrides) == [line]


def test_a_rate_of_the_model_counts_where_the_algorithm_follows_it():
    assert compose_config(["model.learning_rate.grpo=1e-6"]).algo.args["learning_rate"] == 1e-6
    assert compose_config(["model.learning_rate.sft=1e-6", "algo.args.learning_rate=1e-5"])


def test_epochs_pass_without_a_number_of_steps():
    cfg = compose_config(["+algo.args.num_train_epochs=2", "algo.args.max_steps=-1"])
    assert cfg.algo.args["num_train_epochs"] == 2


@pytest.mark.parametrize(
    "override",
    [
        "+algo.args.hub_token=hf_abc",
        "++algo.args.push_to_hub_token=hf_abc",
        "+algo.args.model_init_kwargs={token: hf_abc}",
        "+my_api_key=hf_abc",
        "+algo.args.model_init_kwargs={a: {'token' : hf_abc}}",
        "+x=[{token: hf_abc}]",
    ],
)
def test_a_secret_is_refused_and_never_repeated(override):
    [line] = refuse(override)
    assert line.endswith(SECRET)
    assert "hf_abc" not in line


@pytest.mark.parametrize("overrides", ["max_tokens=7", "algo=sft +algo.args.eos_token=x", "eval.rows=7"])
def test_tokens_of_a_text_are_no_secrets(overrides):
    compose_config(["device=cpu", *overrides.split()])


@pytest.mark.parametrize(
    "override",
    [
        *("output_dir=/tmp/max_token=96", "task.path=/data/my_token:v1.jsonl", "task.path=/data/{a,my_token:b}"),
        *("+reward.functions.per_token=f.py:fn", "+reward.weights.per_token=0.5", "+reward.weights={per_token: 1}"),
    ],
)
def test_a_secret_is_sought_in_keys_and_neither_in_values_nor_in_names_of_rewards(override):
    assert check_overrides([override]) == []
    assert HIDDEN not in assign(*override.lstrip("+").split("=", 1))


@pytest.mark.parametrize(
    ("override", "algo", "meant"),
    [
        ("+algo.args.lr=1e-4", "grpo", "algo.args.learning_rate?"),
        ("+algo.args.epochs=3", "grpo", "algo.args.num_train_epochs?"),
        ("+algo.args.warmup_ratio=0.1", "sft", "algo.args.warmup_steps, of which a value below 1 is a share"),
        ("+algo.args.group_by_length=true", "sft", "algo.args.train_sampling_strategy?"),
        ("+algo.args.logging_dir=logs", "dpo", "output_dir?"),
    ],
)
def test_another_word_for_an_argument_finds_it(override, algo, meant):
    [line] = refuse(f"algo={algo}", override)
    assert f"no such key; did you mean {meant}" in line


def test_arguments_that_make_a_resume_inexact_are_refused():
    assert refuse("+algo.args.save_only_model=true", "+algo.args.ignore_data_skip=true") == [
        "algo.args.save_only_model=true: no run could be resumed from its checkpoints; leave it out, or use"
        " algo.args.save_strategy=no",
        "algo.args.ignore_data_skip=true: a resumed run would begin its epoch again; leave it out",
    ]


def test_a_model_whose_weights_are_a_pickle_is_refused(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    (tmp_path / "pytorch_model.bin").write_bytes(b"no weights")
    assert refuse(f"model.path={tmp_path}", "model.parameters=1e6") == [
        f"model.path={tmp_path}: holds its weights as a pickle, pytorch_model.bin, which can run code when it is read;"
        " must hold safetensors: where you trust it, load it and call save_pretrained"
    ]


def test_a_row_that_is_nested_too_deep_is_one_line(tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"prompt": ' + 10_000 * "[" + 10_000 * "]" + "}\n")
    with pytest.raises(ConfigError) as caught:
        list(read_lines(rows))
    assert caught.value.problems == [f"{rows}, line 1: nested too deep to be read"]


@pytest.mark.parametrize("argument", ["min_p=0.1", "repetition_penalty=1.2", "generation_kwargs={typical_p: 0.9}"])
def test_a_target_kl_is_refused_with_sampling_that_its_kl_does_not_know(argument):
    sampling = [f"+algo.args.{argument}", "generation.method=trl"]
    compose_config(["algo=ppo", "device=cpu", *sampling])
    compose_config(["algo=ppo", "device=cpu", "algo.target_kl=6", "+algo.args.repetition_penalty=1.0"])
    assert refuse("algo=ppo", "algo.target_kl=6", *sampling) == [
        f"algo.args.{argument}: not with algo.target_kl=6, which is steered to by a KL of temperature, top_p and top_k"
        " alone; leave one of the two out"
    ]


@pytest.mark.parametrize("algo", ["grpo", "sft", "dpo"])
def test_the_loss_may_be_left_to_trl(algo):
    assert "loss_type" not in compose_config([f"algo={algo}", "~loss_type"]).algo.args


@pytest.mark.parametrize(
    ("setting", "line"),
    [
        (
            "algo.args.learning_rate=1e-3",
            "algo.args.learning_rate=1e-3: has no effect, algo=none trains nothing; leave it out",
        ),
        ("loss_type=dapo", "loss_type=dapo: has no effect, algo=none trains nothing; leave it out"),
        ("train_tokens=100", "train_tokens=100: has no effect, algo=none trains nothing; leave it out"),
        ("eval.every=5", "eval.every=5: measures completions; algo=none trains no policy"),
        ("task.samples=self", "task.samples=self: algo=none learns from no samples; leave it out"),
    ],
)
def test_what_concerns_training_is_refused_where_nothing_is_trained(setting, line):
    with pytest.raises(ConfigError) as caught:
        compose_config(["algo=none", setting])
    assert caught.value.problems == [line]
