"""Refuses TRL's arguments that have no effect, contradict another key of the config, or make resuming inexact."""

from collections.abc import Iterator
from typing import Any

from rlhf_exp.algorithms import PAIRS
from rlhf_exp.config.schema import Config, conflict, find_value
from rlhf_exp.config.trl_arguments import load_arguments
from rlhf_exp.errors import Problem, show

_PUSH = "the model is pushed after the report; use hub.push=true hub.repo=ORG/NAME"
_EVAL = "TRL evaluates nothing here; to measure in training use eval.every"
IDLE = {
    **dict.fromkeys(
        (
            *("eval_strategy", "eval_steps", "eval_delay", "eval_on_start", "eval_accumulation_steps", "do_eval"),
            *("eval_do_concat_batches", "eval_use_gather_object", "eval_packing", "batch_eval_metrics"),
            *("per_device_eval_batch_size", "num_generations_eval", "prediction_loss_only", "include_for_metrics"),
            *("load_best_model_at_end", "metric_for_best_model", "greater_is_better", "bf16_full_eval"),
            "fp16_full_eval",
        ),
        _EVAL,
    ),
    **dict.fromkeys(
        ("push_to_hub", "hub_model_id", "hub_strategy", "hub_private_repo", "hub_always_push", "hub_revision"), _PUSH
    ),
    "do_train": "training is what a run does; leave it out",
    "do_predict": "a run predicts nothing; leave it out",
    "resume_from_checkpoint": "use resume=RUN_DIR",
    "run_name": "use run.name",
    "local_rank": "the launcher says it; leave it out",
}
"""Any value other than TRL's default is refused."""

# Arguments by the beginning of their names (or the whole name), and the argument and value with which they are read.
READ_WITH = {
    "vllm_": ("use_vllm", True),
    "sapo_": ("loss_type", "sapo"),
    "vespo_": ("loss_type", "vespo"),
    "ref_model_": ("sync_ref_model", True),
    "entropy_coef_": ("use_adaptive_entropy", True),
    "entropy_target": ("use_adaptive_entropy", True),
}

COPIES = {
    "seed": "seed",
    "use_cpu": "device.use_cpu",
    "bf16": "device.bf16",
    "report_to": "logging.report_to",
    "trust_remote_code": "model.trust_remote_code",
    "max_completion_length": "max_tokens",
}
"""Arguments that have the value of a config key; with two values, a run would train with one and record the other."""

SAMPLING = {
    **dict.fromkeys(("max_new_tokens", "max_length", "max_tokens"), "max_tokens"),
    **dict.fromkeys(("num_return_sequences", "num_beams", "n"), "algo.args.num_generations"),
    **dict.fromkeys(("do_sample", "temperature"), "algo.args.temperature"),
    **{name: f"algo.args.{name}" for name in ("top_p", "top_k", "min_p", "repetition_penalty", "cache_implementation")},
}
"""Entries of generation_kwargs, as transformers and vLLM call them, by the key that sets the same."""

FIXED_OPTIMIZERS = ("adamw_torch", "adamw_torch_fused", "adafactor")
"""Optimizers for which transformers does not read `optim_args`."""

_INSTEAD = {"use_cpu": "device=cpu or device=cuda", "report_to": "logging=wandb, tensorboard or file"}
"""What to use instead, if that key is chosen together with others."""

INEXACT = {
    "save_only_model": "no run could be resumed from its checkpoints; leave it out, or use algo.args.save_strategy=no",
    "ignore_data_skip": "a resumed run would begin its epoch again; leave it out",
}
"""With any of these, a resumed run would differ from an uninterrupted one."""


def check_idle(cfg: Config) -> Iterator[Problem]:
    """Whether each argument has an effect."""
    args, known = cfg.algo.args, load_arguments(cfg.algo.name)
    given = {name: value for name, value in args.items() if name in known and value != known[name].default}
    for name in [name for name in given if name in IDLE]:
        yield conflict(cfg, f"algo.args.{name}", f", {IDLE[name]}", "idle")
    for name in given:
        for begin, (switch, on) in READ_WITH.items():
            if name.startswith(begin) and args.get(switch) != on:
                yield conflict(cfg, f"algo.args.{name}", f" without algo.args.{switch}={show(on)}", "idle")
    if args.get("optim_args") is not None:
        yield from _check_optimizer(cfg, args.get("optim", known["optim"].default))
    yield from _check_order(cfg, args.get("train_sampling_strategy", known["train_sampling_strategy"].default))
    if args.get("save_strategy") == "best":
        yield conflict(cfg, "algo.args.save_strategy", f"{_EVAL}; use steps or no")
    if args.get("logging_strategy", "steps") != "steps":
        why = "the watch for a loss that is not finite reads what is logged; leave it out, and use"
        yield conflict(cfg, "algo.args.logging_strategy", f"{why} algo.args.logging_steps")
    if "num_train_epochs" in args and (steps := args.get("max_steps", -1)) > 0:
        why = f" with algo.args.max_steps={steps}; add algo.args.max_steps=-1"
        yield conflict(cfg, "algo.args.num_train_epochs", why, "idle")
    for name in [name for name in INEXACT if args.get(name) is True]:
        yield conflict(cfg, f"algo.args.{name}", INEXACT[name])


def check_owned(cfg: Config) -> Iterator[Problem]:
    """Whether each argument has the value of its config key."""
    key, given = "algo.args.model_init_kwargs", cfg.algo.args.get("model_init_kwargs")
    yield from _compare("algo.args", cfg.algo.args, _list_owned(cfg))
    wanted = {  # with these TRL loads the policy, so that what is measured loads equally
        "dtype": (cfg.model.dtype, "model.dtype"),
        "attn_implementation": (cfg.model.attn_implementation, "model.attn_implementation"),
        "quantization_config": (cfg.peft.quantization, "peft=qlora or peft.quantization"),
    }
    if not isinstance(given, dict):
        yield Problem(key, "type", given, f"a mapping of {', '.join(wanted)}")
        return
    for name in [name for name in given if name not in wanted]:
        way = f"use model.{name}" if name in vars(cfg.model) else "the measurements would load the model without it"
        why = f"no key but {', '.join(wanted)} is allowed; {way}"
        yield Problem(f"{key}.{name}", "unknown", hint=why)
    yield from _compare(key, given, wanted)
    sampling = cfg.algo.args.get("generation_kwargs") or {}
    for name in [name for name in sampling if name in SAMPLING]:
        yield Problem(f"algo.args.generation_kwargs.{name}", "owned", sampling[name], f"; use {SAMPLING[name]}")


def _list_owned(cfg: Config) -> dict[str, tuple[Any, str]]:
    """The value that each argument must have by the config's own keys, and what sets it."""
    found = {name: (find_value(cfg, key), _INSTEAD.get(name, key)) for name, key in COPIES.items()}
    found["output_dir"] = (f"{cfg.output_dir}/checkpoints", "output_dir")
    found["reward_weights"] = (list(cfg.reward.weights.values()), "reward.weights")
    if not cfg.algo.row.online:
        del found["max_completion_length"], found["reward_weights"]
    return found


def _compare(place: str, given: dict[str, Any], wanted: dict[str, tuple[Any, str]]) -> Iterator[Problem]:
    for name, (value, instead) in wanted.items():
        if name not in given or given[name] != value or type(given[name]) is not type(value):
            found = given.get(name, "(deleted)")
            yield Problem(f"{place}.{name}", "owned", found, f", to {show(value)}; use {instead}")


def _check_optimizer(cfg: Config, optimizer: str) -> Iterator[Problem]:
    """Whether `optim_args` can be read, and are; transformers splits them when training begins."""
    pairs = [part.split("=") for part in cfg.algo.args["optim_args"].replace(" ", "").split(",")]
    if any(len(pair) != 2 or "" in pair for pair in pairs):
        what = "NAME=VALUE, several joined by commas, such as momentum=0.9,eps=1e-8"
        yield conflict(cfg, "algo.args.optim_args", what, "type")
    elif optimizer in FIXED_OPTIMIZERS:
        why = f" with algo.args.optim={optimizer}, only with others, such as sgd, adagrad, rmsprop"
        yield conflict(cfg, "algo.args.optim_args", why, "idle")


def _check_order(cfg: Config, order: str) -> Iterator[Problem]:
    """TRL's sampler of prompts ignores the order; transformers groups rows by the length of a single `input_ids`."""
    key, algo, row = "algo.args.train_sampling_strategy", cfg.algo.name, cfg.algo.row
    if row.online and order != "random":
        way = "leave it out: algo.args.shuffle_dataset says whether rows are shuffled"
        yield conflict(cfg, key, f" with algo={algo}; {way}", "idle")
    elif order not in ("random", "sequential") and row.unpaired:
        yield conflict(cfg, key, f"not with algo={algo}, since its rows have no one length; leave it out")
    elif order not in ("random", "sequential") and row.learns_from == PAIRS:
        why = f"not with algo={algo}, since a pair has no one length; must be random or sequential"
        yield conflict(cfg, key, why)
