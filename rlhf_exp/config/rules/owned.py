"""Refuses a TRL argument that contradicts the config key from which it is set, and names that key.

    owned_arguments(cfg)["seed"]     # Owned(value=0, instead="seed")

With two different values, the run would train with one, and measure, name or record the other.
"""

from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.config.schema import Config
from rlhf_exp.config.values import show


@dataclass(frozen=True)
class Owned:
    value: Any
    instead: str


COPIES = {
    "seed": "seed",
    "use_cpu": "device.use_cpu",
    "bf16": "device.bf16",
    "report_to": "logging.report_to",
    "trust_remote_code": "model.trust_remote_code",
    "max_completion_length": "max_tokens",
}
"""Arguments that have the value of a config key."""

_INSTEAD = {"use_cpu": "device=cpu or device=cuda", "report_to": "logging=wandb, tensorboard or file"}
"""What to use instead, if that key is chosen together with others."""


def owned_arguments(cfg: Config) -> dict[str, Owned]:
    """The value that each argument must have, by the config's own keys."""
    found = {name: Owned(attrgetter(key)(cfg), _INSTEAD.get(name, key)) for name, key in COPIES.items()}
    found["output_dir"] = Owned(f"{cfg.output_dir}/checkpoints", "output_dir")
    found["reward_weights"] = Owned(list(cfg.reward.weights.values()), "reward.weights")
    if not ALGORITHMS[cfg.algo.name].online:
        del found["max_completion_length"], found["reward_weights"]
    return found


def owned_model_arguments(cfg: Config) -> dict[str, Owned]:
    """The same for `model_init_kwargs`, with which TRL loads the policy, so that what is measured loads equally."""
    return {
        "dtype": Owned(cfg.model.dtype, "model.dtype"),
        "attn_implementation": Owned(cfg.model.attn_implementation, "model.attn_implementation"),
        "quantization_config": Owned(cfg.peft.quantization, "peft=qlora or peft.quantization"),
    }


def check_owned(cfg: Config) -> list[str]:
    """Whether each argument has the value of its config key."""
    args = cfg.algo.args
    problems = _compare("algo.args", args, owned_arguments(cfg))
    given, wanted = args.get("model_init_kwargs"), owned_model_arguments(cfg)
    if not isinstance(given, dict):
        return [*problems, f"algo.args.model_init_kwargs={show(given)}: must be a mapping of {', '.join(wanted)}"]
    key = "algo.args.model_init_kwargs"
    for name in [name for name in given if name not in wanted]:
        way = f"use model.{name}" if name in vars(cfg.model) else "the measurements would load the model without it"
        problems.append(f"{key}.{name}: no key but {', '.join(wanted)} is allowed; {way}")
    return problems + _compare(key, given, wanted)


def _compare(place: str, given: dict[str, Any], wanted: dict[str, Owned]) -> list[str]:
    return [
        f"{place}.{name}={show(given[name]) if name in given else '(deleted)'}: is set by another key, to"
        f" {show(owned.value)}; use {owned.instead}"
        for name, owned in wanted.items()
        if name not in given or given[name] != owned.value or type(given[name]) is not type(owned.value)
    ]
