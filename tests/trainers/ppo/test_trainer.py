"""The PPO trainer on tiny models: its loss against a slow reference in float64, and what it saves and resumes.

That ratio and KL begin at 1 and 0, and that policy and critic learn and nothing else:
tests/preflight/test_first_steps.py.
"""

import json
from copy import deepcopy

import pytest
import torch
from datasets import Dataset
from peft import LoraConfig
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM
from trl.trainer.utils import split_tensor_dict

from rlhf_exp.models.generation import Sampling
from rlhf_exp.models.kl import compare_sampled
from rlhf_exp.models.patches import patch_position_ids
from rlhf_exp.models.untrained import build_byte_tokenizer
from rlhf_exp.trainers import trimmed
from rlhf_exp.trainers.ppo import PPOConfig
from rlhf_exp.trainers.ppo.trainer import PPOTrainer
from tests.building import build_random
from tests.trainers.references import draw_rows

LENGTHS = [(3, 6), (5, 1), (1, 4), (4, 0), (2, 3), (5, 5), (3, 2), (1, 1)]
"""Tokens of prompt and completion of each row: left and right padding of every amount, and a masked completion."""
PROMPTS = ["a", "bcd", "ef", "ghijk", "lm", "nop", "q", "rstu"]
ROWS = [{"prompt": prompt} for prompt in PROMPTS]
OWN = {
    "critic": "shared", "critic_learning_rate": 1e-3, "critic_warmup_steps": 0, "vf_coef": 0.1, "cliprange_value": 0.2,
    "gamma": 1.0, "lam": 1.0, "whiten_advantages": True, "init_kl_coef": 0.05, "target_kl": None, "kl_horizon": 10_000,
    "missing_eos_penalty": None,
}  # fmt: skip
"""The arguments of PPO that TRL does not have."""
ONE_BATCH = {"per_device_train_batch_size": 8, "steps_per_generation": 1}
ARCHITECTURES = ("gpt2", "qwen3")
LORA = LoraConfig(task_type="CAUSAL_LM", target_modules="all-linear", r=4, init_lora_weights=False)


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """For each architecture the folder of a tiny model."""
    made = {architecture: str(tmp_path_factory.mktemp(architecture)) for architecture in ARCHITECTURES}
    for architecture, path in made.items():
        build_random(architecture, build_byte_tokenizer()).save_pretrained(path)
    return made


@pytest.fixture
def make(paths, tmp_path):
    """Build the trainer of a tiny model in training mode; its run is in `tmp_path`."""
    return lambda architecture="qwen3", *given, **args: make_trainer(paths[architecture], tmp_path, *given, **args)


def reward_length(prompts, completions, completion_ids, **columns):
    return [len(ids) / 8 + len(prompt) / 4 for prompt, ids in zip(prompts, completion_ids, strict=True)]


def make_trainer(path, folder, dtype=torch.float32, peft_config=None, **args):
    args = {
        "per_device_train_batch_size": 2, "steps_per_generation": 4, "max_completion_length": 6, "max_steps": 8,
        "learning_rate": 1e-3, "save_strategy": "no", "logging_steps": 1, "report_to": [], "disable_tqdm": True,
        "use_cpu": True, "bf16": False, "gradient_checkpointing": False, "disable_dropout": True, **OWN, **args,
    }  # fmt: skip
    trainer = PPOTrainer(
        model=path,
        args=PPOConfig(output_dir=str(folder), model_init_kwargs={"dtype": dtype}, **args),
        reward_funcs=[reward_length],
        train_dataset=Dataset.from_list(ROWS * 4),
        processing_class=build_byte_tokenizer(),
        peft_config=deepcopy(peft_config),  # into which peft writes
    )
    for model in (trainer.model, trainer.ref_model):
        if model is not None:
            patch_position_ids(model)
    trainer.critic.to(dtype)
    trainer.current_gradient_accumulation_steps = args.get("gradient_accumulation_steps", 1)
    trainer.model.train()
    return trainer


def make_batch(trainer, dtype=torch.float64):
    """A minibatch as a rollout leaves it: log-probabilities and values a little off those of now."""
    generator = torch.Generator().manual_seed(1)
    batch = draw_rows(LENGTHS, 200, generator)
    advantages, returns, values, noise = torch.randn(4, len(LENGTHS), 6, generator=generator, dtype=dtype)
    with torch.no_grad():
        batch["old_per_token_logps"] = trainer._score(batch) + 0.3 * noise
    tokens = batch["completion_mask"].sum().to(dtype)
    return batch | {"advantages": advantages, "returns": returns, "values": 0.1 * values, "num_items_in_batch": tokens}


def reference_loss(trainer, batch):
    """The loss of the batch and its figures, row by row and token by token, without padding: policy, value, entropy."""
    args, model, critic = trainer.args, trainer.model, trainer.critic
    policy = value_loss = entropy = tokens = 0.0
    figures = {"ratio": 0.0, "approx_kl": 0.0, "clip_fraction": 0.0, "value_clip_fraction": 0.0}
    for i, (p, c) in enumerate(LENGTHS):
        ids = torch.cat([batch["prompt_ids"][i][-p:], batch["completion_ids"][i][:c]])[None]
        output = model(input_ids=ids, output_hidden_states=True)
        logps = (output.logits[0] / args.temperature).log_softmax(-1)
        if args.critic == "shared":
            values = critic(output.hidden_states[-1])[0]
        else:
            values = critic.model(input_ids=ids).logits[0, :, 0]
        for t in range(c):
            at, token = p + t - 1, ids[0, p + t]
            ratio = (logps[at, token] - batch["old_per_token_logps"][i, t]).exp()
            advantage = batch["advantages"][i, t]
            policy -= torch.min(ratio * advantage, ratio.clamp(1 - args.epsilon, 1 + args.epsilon) * advantage)
            old, target = batch["values"][i, t], batch["returns"][i, t]
            moved = old + (values[at] - old).clamp(-args.cliprange_value, args.cliprange_value)
            value_loss += 0.5 * torch.max((values[at] - target) ** 2, (moved - target) ** 2)
            entropy -= (logps[at].exp() * logps[at]).sum()
            tokens += 1
            figures["ratio"] += ratio.item()
            figures["approx_kl"] += (ratio - 1 - ratio.log()).item()
            figures["clip_fraction"] += ratio > 1 + args.epsilon if advantage > 0 else ratio < 1 - args.epsilon
            figures["value_clip_fraction"] += (moved - target) ** 2 > (values[at] - target) ** 2
    loss = (policy + args.vf_coef * value_loss) / tokens - args.entropy_coef * entropy / tokens
    return loss, {f"ppo/{name}": float(total) / tokens for name, total in figures.items()}


@pytest.mark.parametrize("critic", ["shared", "separate"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_loss_and_gradient_are_those_of_a_slow_reference(make, monkeypatch, architecture, critic):
    monkeypatch.setattr(trimmed, "CHUNK_TOKENS", 3 * 6)  # three rows
    args = {"vf_coef": 0.7, "entropy_coef": 0.05, "temperature": 0.9, **ONE_BATCH}
    trainer = make(architecture, torch.float64, critic=critic, **args)
    torch.nn.init.normal_(next(p for n, p in reversed(list(trainer.critic.named_parameters())) if p.dim() > 1))
    batch = make_batch(trainer)
    losses, gradients = [], []
    wanted, figures = reference_loss(trainer, batch)
    for loss in (trainer._compute_loss(trainer.model, batch), wanted):
        trainer.model.zero_grad()
        loss.backward()
        losses.append(loss.item())
        gradients.append({n: p.grad.clone() for n, p in trainer.model.named_parameters() if p.grad is not None})
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    logged = {name: trainer._metrics["train"][name][-1] for name in figures}
    assert logged == pytest.approx(figures, rel=1e-4) and all(figures.values())
    assert gradients[0].keys() == gradients[1].keys() and any(n.startswith("critic.") for n in gradients[0])
    for name, gradient in gradients[1].items():
        scale = gradient.abs().max().item()
        torch.testing.assert_close(gradients[0][name], gradient, rtol=0, atol=1e-4 * scale + 1e-9, msg=name)


def test_the_critic_is_held_against_what_came_and_not_against_itself(make):
    """Without a KL term and at gamma 1, what is still to come at any token is the completion's score."""
    trainer = make(init_kl_coef=0.0, lam=0.5)
    torch.manual_seed(0)
    torch.nn.init.normal_(trainer.critic.score.weight)  # it says noise
    rollout = trainer._generate_and_score_completions(ROWS)
    mask = rollout["completion_mask"].bool()
    scores = rollout["completion_mask"].sum(1) / 8 + torch.tensor([len(prompt) / 4 for prompt in PROMPTS])
    came, values = scores[:, None].expand(mask.shape)[mask].double(), rollout["values"][mask].double()
    found = {name: figures[-1] for name, figures in trainer._metrics["train"].items()}
    wanted = 1 - ((came - values).var() / came.var()).item()
    assert wanted < 0
    assert found["ppo/explained_variance"] == pytest.approx(wanted, rel=1e-5)
    assert found["ppo/return_mean"] == pytest.approx(came.mean().item(), rel=1e-6)
    assert found["ppo/value_mean"] == pytest.approx(values.mean().item(), rel=1e-5)
    returns = rollout["returns"][mask].double()  # what the value loss learns from
    assert 1 - ((returns - values).var() / returns.var()).item() > wanted + 0.1


def test_8_rows_at_once_equal_2_at_a_time_with_accumulation_4(make):
    gradients = []
    for parts in (1, 4):
        sizes = {"per_device_train_batch_size": 8 // parts, "gradient_accumulation_steps": parts}
        trainer = make("qwen3", torch.float64, entropy_coef=0.0, steps_per_generation=parts, **sizes)
        batch = make_batch(trainer)
        for part in split_tensor_dict(batch, parts):
            trainer._compute_loss(trainer.model, part).backward()
        gradients.append([p.grad for p in trainer.model.parameters() if p.grad is not None])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-7)


def copy_parameters(model):
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def list_moved(model, before):
    return {name for name, parameter in model.named_parameters() if not torch.equal(parameter, before[name])}


@pytest.fixture(scope="module", params=[("shared", None), ("separate", None), ("separate", LORA)])
def trained(request, paths, tmp_path_factory):
    """A trainer after four steps."""
    critic, lora = request.param
    folder = tmp_path_factory.mktemp("run")
    trainer = make_trainer(paths["qwen3"], folder, peft_config=lora, critic=critic, max_steps=4)
    trainer.train()
    return trainer


def test_the_critic_begins_at_0_and_has_a_rate_of_its_own(trained):
    assert trained.state.log_history[0]["ppo/value_mean"] == 0
    rates = [group["initial_lr"] for group in trained.optimizer.param_groups]
    assert rates == [1e-3, 1e-3, trained.args.critic_learning_rate]


def test_while_the_critic_warms_up_the_policy_stays(make):
    trainer = make(max_steps=4, critic_warmup_steps=4)
    before = copy_parameters(trainer.model)
    trainer.train()
    moved = list_moved(trainer.model, before)
    assert moved and all(name.startswith("critic.") for name in moved)
    states = {id(parameter) for parameter, state in trainer.optimizer.state.items() if state}
    assert states == {id(parameter) for parameter in trainer.critic.parameters()}, "Adam counts no step of the policy"


def test_every_epoch_sees_each_completion_once_in_other_minibatches(make):
    trainer = make(max_steps=12, num_iterations=3)
    seen, compute = [], trainer._compute_loss

    def record(model, inputs):
        rows = zip(inputs["prompt_ids"].tolist(), inputs["completion_ids"].tolist(), strict=True)
        seen.append([str(row) for row in rows])
        return compute(model, inputs)

    trainer._compute_loss = record
    trainer.train()
    epochs = [seen[i : i + 4] for i in range(0, 12, 4)]
    assert len({tuple(sorted(sum(epoch, []))) for epoch in epochs}) == 1, "one rollout for all three"
    assert len({str(epoch) for epoch in epochs}) == 3
    assert trainer.state.log_history[4]["ppo/approx_kl"] > 0, "the second epoch is off the rollout's policy"


def test_what_is_saved_loads_as_a_plain_model_with_the_critic_beside_it(trained, tmp_path):
    trained.save_model(str(tmp_path / "model"))
    (weights,) = (tmp_path / "model").glob("*.safetensors")
    assert not any("critic" in name for name in load_file(weights))
    if weights.stem == "model":
        loaded, info = AutoModelForCausalLM.from_pretrained(tmp_path / "model", output_loading_info=True)
        assert not info["missing_keys"] and not info["unexpected_keys"]
        assert not list_moved(loaded, copy_parameters(trained.model))
    assert load_file(tmp_path / "model" / "critic" / "model.safetensors")
    assert json.loads((tmp_path / "model" / "critic" / "kl_controller.json").read_text()) == {"coef": 0.05}


def test_a_missing_end_costs_its_penalty(make):
    scores = {}
    for penalty in (None, 2.0):
        trainer = make(missing_eos_penalty=penalty, init_kl_coef=0.0, lam=1.0)
        torch.manual_seed(0)
        rollout = trainer._generate_and_score_completions(ROWS)
        ended = (rollout["completion_ids"] == trainer.processing_class.eos_token_id).any(1)
        scores[penalty] = rollout["returns"][:, 0]
    assert not ended.all(), "the test wants completions that are cut"
    torch.testing.assert_close(scores[2.0], scores[None] - 2.0 * ~ended)


def roll_out(trainer, spread=0.5):
    """One rollout of a policy that is off its reference; its tokens' log-ratios at the sampling's temperature."""
    torch.manual_seed(0)
    for name, parameter in trainer.model.named_parameters():
        if parameter.requires_grad and not name.startswith("critic."):
            parameter.data += spread * parameter.std().nan_to_num(0.1) * torch.randn_like(parameter)
    rollout = trainer._generate_and_score_completions(ROWS)
    return rollout, {name: values[-1] for name, values in trainer._metrics["train"].items()}


def loop_exact_kl(trainer, rollout):
    """Row by row, without padding, in float64: KL of the sampled distributions to the base model's, and the mean over
    the rows of what they have outside its tokens."""
    reference, found = AutoModelForCausalLM.from_pretrained(trainer.model.name_or_path).double().eval(), []
    policy = trainer.model.get_base_model() if hasattr(trainer.model, "peft_config") else trainer.model
    sampling = Sampling(6, trainer.temperature, trainer.top_p, trainer.top_k or 0)
    for i in range(len(PROMPTS)):
        ids, mask = (
            torch.cat([rollout[f"{part}_{name}"][i] for part in ("prompt", "completion")]) for name in ("ids", "mask")
        )
        ids, c = ids[mask.bool()], int(rollout["completion_mask"][i].sum())
        with torch.no_grad():
            logits = [m(input_ids=ids[None]).logits[0, -c - 1 : -1].double() for m in (policy.eval(), reference)]
        kl, outside = compare_sampled(*(v.log_softmax(-1) for v in logits), sampling)
        found.append((kl.sum().item(), outside.mean().item()))
    return [sum(values) / len(values) for values in zip(*found, strict=True)]


@pytest.mark.parametrize(
    ("architecture", "sampling", "adapter"),
    [
        ("gpt2", {"temperature": 0.7, "top_p": 0.9}, True),
        ("qwen3", {"top_k": 5}, False),
        ("qwen3", {"temperature": 1.3, "target_kl": 0.1}, True),
    ],
)
def test_the_exact_kl_is_of_the_distributions_that_are_sampled_from(make, architecture, sampling, adapter):
    trainer = make(architecture, peft_config=LORA if adapter else None, **sampling)
    rollout, found = roll_out(trainer)
    assert trainer.model.training and found["ppo/kl_exact"] > 0.05
    kl, outside = loop_exact_kl(trainer, rollout)
    assert found["ppo/kl_exact"] == pytest.approx(kl, rel=1e-3)
    assert found["ppo/kl_outside"] == pytest.approx(outside, rel=1e-3)
    assert (outside > 0) == ("target_kl" not in sampling)


def test_a_target_is_steered_to_by_the_exact_kl(make):
    trainer = make(target_kl=1e6, kl_horizon=80)
    trainer.model.lm_head.weight = torch.nn.Parameter(0.9 * trainer.model.lm_head.weight.detach())
    steered = []
    trainer.controller.update = lambda kl, completions: steered.append((kl, completions))
    _, found = roll_out(trainer, spread=0.0)
    assert steered == [(found["ppo/kl_exact"], len(PROMPTS))]
