"""Refused: what could not learn, and what only training would have found."""

import pytest
from safetensors.numpy import save_file

from rlhf_exp.config.compose import compose_config
from rlhf_exp.errors import ConfigError

SCALED = "is scaled by it, so that nothing would be learned; must be > 0, such as 0.1"
NOT_READ = "; for any other rows use task=file"


def refuse(*overrides):
    with pytest.raises(ConfigError) as caught:
        compose_config(["device=cpu", *overrides])
    return caught.value.problems


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (
            ["algo=dpo", "algo.args.beta=0"],
            f"algo.args.beta=0: loss_type=[sigmoid] {SCALED}, or use algo.args.loss_type=[sft], which is not",
        ),
        (["algo=kto", "algo.args.beta=0.0"], f"algo.args.beta=0: loss_type=kto {SCALED}"),
        (
            ["algo=dpo", "algo.args.beta=0", "algo.args.loss_type=[sft,ipo]"],
            f"algo.args.beta=0: loss_type=[sft, ipo] {SCALED}, or use algo.args.loss_type=[sft], which is not",
        ),
        (
            ["algo=kto", "algo.args.desirable_weight=0", "algo.args.undesirable_weight=0"],
            "algo.args.desirable_weight=0 and algo.args.undesirable_weight=0: the loss would be 0, and nothing learned;"
            " one must be > 0",
        ),
        (
            ["algo=dpo", "+algo.args.loss_weights=[0]"],
            "algo.args.loss_weights=[0]: the loss would be 0, and nothing learned; one must be > 0",
        ),
        (
            ["algo=rloo", "+algo.args.reward_clip_range=[1,-1]"],
            "algo.args.reward_clip_range=[1, -1]: would make all rewards equal; must rise, the lower bound first;"
            " nearest: [-1, 1]",
        ),
        (
            ["max_tokens=1"],
            "max_tokens=1: no answer of task=countdown is that short, so that nothing would earn"
            " reward.weights.outcome; must be at least 2",
        ),
        (["algo.args.learning_rate=1e-300"], "algo.args.learning_rate=1e-300: must be a number >= 1e-12, <= 1"),
        (
            ["algo=ppo", "algo.critic_learning_rate=1e-300"],
            "algo.critic_learning_rate=1e-300: must be a number >= 1e-12, <= 1",
        ),
        (
            ["+algo.args.generation_kwargs={max_new_tokens: 5}"],
            "algo.args.generation_kwargs.max_new_tokens=5: is set by another key; use max_tokens",
        ),
        (
            ["+algo.args.generation_kwargs={do_sample: false}"],
            "algo.args.generation_kwargs.do_sample=false: is set by another key; use algo.args.temperature",
        ),
        (["+algo.args.fsdp=true"], "algo.args.fsdp=true: is set by another key; use scale=fsdp2"),
        (
            ["+algo.args.deepspeed={zero_optimization: {stage: 2}}"],
            "algo.args.deepspeed={zero_optimization: {stage: 2}}: is set by another key; use scale=zero2 or zero3",
        ),
        (
            ["+algo.args.optim_args=x"],
            "algo.args.optim_args=x: must be NAME=VALUE, several joined by commas, such as momentum=0.9,eps=1e-8",
        ),
        (
            ["+algo.args.optim_args='momentum=0.9'"],
            "algo.args.optim_args=momentum=0.9: has no effect with algo.args.optim=adamw_torch_fused, only with others,"
            " such as sgd, adagrad, rmsprop",
        ),
        (
            ["+algo.args.optim=sgd", "+algo.args.optim_args='mometum=0.9'"],
            "algo.args.optim_args=mometum=0.9: mometum has no effect with algo.args.optim=sgd; must be one of momentum,"
            " dampening, weight_decay, nesterov; did you mean momentum?",
        ),
        (
            ["+algo.args.optim=galore_adamw"],
            "algo.args.optim=galore_adamw: galore-torch is not installed; pip install galore-torch, or leave it out",
        ),
        (
            ["task.path=rows.csv"],
            "task.path=rows.csv: has no effect with task.source=generated; add task.source=file, which reads a JSONL"
            f" file with nums and target{NOT_READ}",
        ),
        (
            ["task=brevity", "task.of.path=rows.csv"],
            "task.of.path=rows.csv: has no effect with task.of.source=generated; add task.of.source=file, which reads a"
            f" JSONL file with nums and target{NOT_READ}",
        ),
    ],
)
def test_what_cannot_learn_is_one_line(overrides, line):
    assert refuse(*overrides) == [line]


@pytest.mark.parametrize(
    "overrides",
    [
        ["algo=grpo", "algo.args.beta=0"],
        ["algo=rloo", "algo.args.beta=0"],
        ["algo=dpo", "algo.args.beta=0", "algo.args.loss_type=[sft]"],
        ["algo=dpo", "algo.args.beta=0", "algo.args.loss_type=[sigmoid,sft]"],
        ["algo=kto", "algo.args.desirable_weight=0"],
        ["algo=dpo", "algo.args.loss_type=[sigmoid,sft]", "+algo.args.loss_weights=[1,0]"],
        ["algo=rloo", "+algo.args.reward_clip_range=[-1,1]"],
        ["algo=grpo", "reward=constant"],
        ["algo=grpo", "reward=random", "max_tokens=1"],
        ["algo=sft", "max_tokens=1"],
        ["algo=none", "max_tokens=1"],
        ["+algo.args.generation_kwargs={typical_p: 0.9}"],
        ["+algo.args.optim=sgd", "+algo.args.optim_args='momentum=0.9,nesterov=true'"],
        ["task=module", "task.module=examples/own_task/near.py", "task.path=examples"],
    ],
)
def test_what_can_learn_and_controls_pass(overrides):
    compose_config(["device=cpu", *overrides])


LLAMA = "q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj, embed_tokens, lm_head"


@pytest.mark.parametrize(
    ("model", "targets", "line"),
    [
        ("tiny", "[nope]", f"[nope]: model=tiny has no nope; must be one of {LLAMA}"),
        ("tiny", "[o_proj,porj]", f"[o_proj, porj]: model=tiny has no porj; must be one of {LLAMA}"),
        ("tiny_gpt2", "[q]", "[q]: model=tiny_gpt2 has no q; must be one of c_attn, c_proj, c_fc, wte, wpe, lm_head"),
        ("tiny", "q_proj", "q_proj: must be all-linear, or a list of names; did you mean [q_proj]?"),
        ("tiny", "'(q'", "(q: no regular expression, missing ), unterminated subpattern at position 0"),
        ("tiny", "[]", "[]: must name a module, or be all-linear"),
    ],
)  # fmt: skip
def test_an_adapter_for_modules_that_the_model_has_not_is_refused(model, targets, line):
    assert refuse("peft=lora", f"model={model}", f"peft.lora.target_modules={targets}") == [
        f"peft.lora.target_modules={line}"
    ]


@pytest.mark.parametrize("targets", ["[q_proj]", "[model.layers.0.self_attn.q_proj]", "[lm_head]", "'.*[qv]_proj'"])
def test_an_adapter_for_modules_that_the_model_has_passes(targets):
    compose_config(["device=cpu", "peft=lora", f"peft.lora.target_modules={targets}"])


def test_the_modules_of_a_model_of_another_type_are_those_of_its_weights(tmp_path, weights):
    (tmp_path / "config.json").write_text('{"model_type": "other"}')
    save_file(weights, tmp_path / "model.safetensors")
    local = [f"model.path={tmp_path}", "model.parameters=1e6", "peft=lora"]
    assert refuse(*local, "peft.lora.target_modules=[q_proj]") == [
        f"peft.lora.target_modules=[q_proj]: model={tmp_path} has no q_proj; must be one of qkv, lm_head"
    ]
    compose_config(["device=cpu", *local, "peft.lora.target_modules=[qkv]"])


@pytest.fixture
def weights():
    np = pytest.importorskip("numpy")
    return {"block.0.qkv.weight": np.ones((2, 2), "float32"), "block.0.norm.weight": np.ones(2, "float32")}
