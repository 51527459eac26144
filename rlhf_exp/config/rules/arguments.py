"""Refuses TRL's arguments that would do nothing here, contradict another key, or make resuming inexact."""

from collections.abc import Iterator
from typing import Any

from rlhf_exp.config.schema import Config, conflict, find_value
from rlhf_exp.config.trl_arguments import load_arguments
from rlhf_exp.errors import Problem, show

_EVAL = "TRL evaluates nothing here; to measure in training use eval.every"
_PUSH = "the model is pushed after the report; use hub.push=true hub.repo=ORG/NAME"
NOT_HERE = {
    **dict.fromkeys(("eval_", "do_eval", "per_device_eval", "num_generations_eval", "load_best", "metric_for"), _EVAL),
    **dict.fromkeys(("push_to_hub", "hub_"), _PUSH),
    "run_name": "use run.name",
    "deepspeed": "use scale=fsdp2",
    "project": "use logging.wandb_project",
    "resume_from_checkpoint": "use resume=RUN_DIR",
    "save_only_model": "no run could be resumed from its checkpoints; use algo.args.save_strategy=no",
    "ignore_data_skip": "a resumed run would begin its epoch again; leave it out",
    "logging_strategy": "the watch for a loss that is not finite reads what is logged; use algo.args.logging_steps",
}
"""Arguments, or the beginnings of their names, of which any value other than TRL's default is refused."""

COPIES = {
    "seed": "seed",
    "use_cpu": "device.use_cpu",
    "bf16": "device.bf16",
    "report_to": "logging.report_to",
    "trust_remote_code": "model.trust_remote_code",
    "max_completion_length": "max_tokens",
}
"""Arguments that have the value of a config key; with two values, a run would train with one and record the other."""

LOADING = {
    "dtype": "model.dtype",
    "attn_implementation": "model.attn_implementation",
    "quantization_config": "peft.quantization",
}
"""The entries of model_init_kwargs: with these TRL loads the policy, so that what is measured loads equally."""

SAMPLING = (
    *("max_new_tokens", "max_length", "max_tokens", "num_return_sequences", "num_beams", "n", "do_sample"),
    *("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "cache_implementation"),
)
"""Entries of generation_kwargs, as transformers and vLLM call them, that other keys set."""


def check_arguments(cfg: Config) -> Iterator[Problem]:
    """Whether each argument is one for a run of this package, and has the value of its config key."""
    args, known = cfg.algo.args, load_arguments(cfg.algo.name)
    for name in [name for name, value in args.items() if name in known and value != known[name].default]:
        for why in [why for begin, why in NOT_HERE.items() if name.startswith(begin)]:
            yield conflict(cfg, f"algo.args.{name}", why)
    if "num_train_epochs" in args and (steps := args.get("max_steps", -1)) > 0:
        why = f" with algo.args.max_steps={steps}; add algo.args.max_steps=-1"
        yield conflict(cfg, "algo.args.num_train_epochs", why, "idle")
    for name in [name for name in args.get("generation_kwargs") or {} if name in SAMPLING]:
        yield Problem(f"algo.args.generation_kwargs.{name}", "owned", hint="; use the key of that name")
    loading = args.get("model_init_kwargs")
    if not isinstance(loading, dict):
        yield conflict(cfg, "algo.args.model_init_kwargs", f"a mapping of {', '.join(LOADING)}", "type")
        return
    given = args | {f"model_init_kwargs.{name}": value for name, value in loading.items()}
    for name, (value, key) in _list_owned(cfg).items():
        if name not in given or given[name] != value or type(given[name]) is not type(value):
            found = given.get(name, "(deleted)")
            yield Problem(f"algo.args.{name}", "owned", found, f", to {show(value)}; use {key}")
    for name in [name for name in loading if name not in LOADING]:
        why = f"no key but {', '.join(LOADING)} is allowed: the measurements would load the model without it"
        yield Problem(f"algo.args.model_init_kwargs.{name}", "unknown", hint=why)


def _list_owned(cfg: Config) -> dict[str, tuple[Any, str]]:
    """The value that each argument must have by the config's own keys, and the key that sets it."""
    keys = COPIES | {f"model_init_kwargs.{name}": key for name, key in LOADING.items()}
    found = {name: (find_value(cfg, key), key) for name, key in keys.items()}
    found["output_dir"] = (f"{cfg.output_dir}/checkpoints", "output_dir")
    if cfg.algo.row.online:
        found["reward_weights"] = (list(cfg.reward.weights.values()), "reward.weights")
    else:
        del found["max_completion_length"]
    return found
