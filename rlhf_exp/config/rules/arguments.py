"""Refuses TRL's arguments that have no effect, contradict another key of the config, or make resuming inexact."""

from operator import attrgetter
from typing import Any

from rlhf_exp.algorithms import ALGORITHMS, PAIRS
from rlhf_exp.config.schema import Config
from rlhf_exp.config.trl_arguments import load_arguments
from rlhf_exp.config.values import one_of, show

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

OPTIMIZERS = {
    "sgd": ("momentum", "dampening", "weight_decay", "nesterov"),
    "adagrad": ("lr_decay", "weight_decay", "eps"),
    "rmsprop": ("momentum", "alpha", "eps", "weight_decay", "centered"),
}
"""What transformers reads of `optim_args`. The optimizers of other packages read what these know."""
FIXED = ("adamw_torch", "adamw_torch_fused", "adafactor")
"""Optimizers for which it reads none."""

_INSTEAD = {"use_cpu": "device=cpu or device=cuda", "report_to": "logging=wandb, tensorboard or file"}
"""What to use instead, if that key is chosen together with others."""

# With any of these, a resumed run would differ from an uninterrupted one.
INEXACT = {
    "save_only_model": "no run could be resumed from its checkpoints; leave it out, or use algo.args.save_strategy=no",
    "ignore_data_skip": "a resumed run would begin its epoch again; leave it out",
}


def check_idle(cfg: Config) -> list[str]:
    """Whether each argument has an effect."""
    args, known = cfg.algo.args, load_arguments(cfg.algo.name)
    given = {name: value for name, value in args.items() if name in known and value != known[name].default}
    problems = [f"algo.args.{name}={show(given[name])}: has no effect, {IDLE[name]}" for name in given if name in IDLE]
    for name, value in given.items():
        for begin, (switch, on) in READ_WITH.items():
            if name.startswith(begin) and args.get(switch) != on:
                problems.append(f"algo.args.{name}={show(value)}: has no effect without algo.args.{switch}={show(on)}")
    if (text := args.get("optim_args")) is not None:
        problems += _check_optimizer(text, args.get("optim", known["optim"].default))
    order = args.get("train_sampling_strategy", known["train_sampling_strategy"].default)
    problems += _check_order(cfg.algo.name, order)
    if args.get("save_strategy") == "best":
        problems.append(f"algo.args.save_strategy=best: {_EVAL}; use steps or no")
    if (logged := args.get("logging_strategy", "steps")) != "steps":
        problems.append(
            f"algo.args.logging_strategy={show(logged)}: the watch for a loss that is not finite reads what is logged;"
            " leave it out, and use algo.args.logging_steps"
        )
    steps = args.get("max_steps", -1)
    if "num_train_epochs" in args and steps > 0:
        problems.append(
            f"algo.args.num_train_epochs={show(args['num_train_epochs'])}: has no effect with"
            f" algo.args.max_steps={steps}; add algo.args.max_steps=-1"
        )
    return problems


def check_saving(cfg: Config) -> list[str]:
    """Whether checkpoints hold all that resuming needs, and are read in full."""
    return [f"algo.args.{name}=true: {why}" for name, why in INEXACT.items() if cfg.algo.args.get(name) is True]


def check_owned(cfg: Config) -> list[str]:
    """Whether each argument has the value of its config key."""
    problems = _compare("algo.args", cfg.algo.args, _list_owned(cfg))
    given = cfg.algo.args.get("model_init_kwargs")
    wanted = {  # with these TRL loads the policy, so that what is measured loads equally
        "dtype": (cfg.model.dtype, "model.dtype"),
        "attn_implementation": (cfg.model.attn_implementation, "model.attn_implementation"),
        "quantization_config": (cfg.peft.quantization, "peft=qlora or peft.quantization"),
    }
    if not isinstance(given, dict):
        return [*problems, f"algo.args.model_init_kwargs={show(given)}: must be a mapping of {', '.join(wanted)}"]
    key = "algo.args.model_init_kwargs"
    for name in [name for name in given if name not in wanted]:
        way = f"use model.{name}" if name in vars(cfg.model) else "the measurements would load the model without it"
        problems.append(f"{key}.{name}: no key but {', '.join(wanted)} is allowed; {way}")
    return problems + _compare(key, given, wanted) + _check_sampling(cfg.algo.args)


def _check_sampling(args: dict[str, Any]) -> list[str]:
    given = args.get("generation_kwargs") or {}
    return [
        f"algo.args.generation_kwargs.{name}={show(given[name])}: is set by another key; use {SAMPLING[name]}"
        for name in given
        if name in SAMPLING
    ]


def _check_optimizer(text: str, optimizer: str) -> list[str]:
    """Whether `optim_args` can be read, and are."""
    line = f"algo.args.optim_args={show(text)}"
    pairs = [part.split("=") for part in text.replace(" ", "").split(",")]
    if any(len(pair) != 2 or "" in pair for pair in pairs):
        return [f"{line}: must be NAME=VALUE, several joined by commas, such as momentum=0.9,eps=1e-8"]
    if optimizer in FIXED:
        ways = ", ".join(OPTIMIZERS)
        return [f"{line}: has no effect with algo.args.optim={optimizer}, only with others, such as {ways}"]
    known = OPTIMIZERS.get(optimizer)
    return [
        f"{line}: {name} has no effect with algo.args.optim={optimizer}; {one_of(name, known)}"
        for name, _ in pairs
        if known and name not in known
    ]


def _list_owned(cfg: Config) -> dict[str, tuple[Any, str]]:
    """The value that each argument must have by the config's own keys, and what sets it."""
    found = {name: (attrgetter(key)(cfg), _INSTEAD.get(name, key)) for name, key in COPIES.items()}
    found["output_dir"] = (f"{cfg.output_dir}/checkpoints", "output_dir")
    found["reward_weights"] = (list(cfg.reward.weights.values()), "reward.weights")
    if not ALGORITHMS[cfg.algo.name].online:
        del found["max_completion_length"], found["reward_weights"]
    return found


def _check_order(algo: str, order: str) -> list[str]:
    """TRL's sampler of prompts ignores the order; transformers groups rows by the length of a single `input_ids`."""
    line = f"algo.args.train_sampling_strategy={order}"
    if ALGORITHMS[algo].online and order != "random":
        way = "leave it out: algo.args.shuffle_dataset says whether rows are shuffled"
        return [f"{line}: has no effect with algo={algo}; {way}"]
    if order in ("random", "sequential"):
        return []
    if ALGORITHMS[algo].unpaired:
        return [f"{line}: not with algo={algo}, since its rows have no one length; leave it out"]
    if ALGORITHMS[algo].learns_from == PAIRS:
        return [f"{line}: not with algo={algo}, since a pair has no one length; must be random or sequential"]
    return []


def _compare(place: str, given: dict[str, Any], wanted: dict[str, tuple[Any, str]]) -> list[str]:
    return [
        f"{place}.{name}={show(given[name]) if name in given else '(deleted)'}: is set by another key, to"
        f" {show(value)}; use {instead}"
        for name, (value, instead) in wanted.items()
        if name not in given or given[name] != value or type(given[name]) is not type(value)
    ]
