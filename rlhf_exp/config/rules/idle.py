"""Refuses TRL's arguments that would have no effect, or only with another value of another argument."""

from rlhf_exp.algorithms import ALGORITHMS, PAIRS
from rlhf_exp.config.schema import Config
from rlhf_exp.config.trl_arguments import load_arguments
from rlhf_exp.config.values import show

_EVAL = "nothing is evaluated while training; eval.* is measured before and after"
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
    "do_train": "training is what a run does; leave it out",
    "do_predict": "a run predicts nothing; leave it out",
    "resume_from_checkpoint": "use resume=RUN_DIR",
    "run_name": "a run is named by output_dir, and in W&B by logging.name",
    "local_rank": "the launcher says it; leave it out",
}
"""Any value other than TRL's default is refused."""

# Arguments by the beginning of their names (or the whole name), and the argument and values with which they are read.
READ_WITH = {
    "vllm_": ("use_vllm", (True,)),
    "sapo_": ("loss_type", ("sapo",)),
    "vespo_": ("loss_type", ("vespo",)),
    "ref_model_": ("sync_ref_model", (True,)),
    "entropy_coef_": ("use_adaptive_entropy", (True,)),
    "entropy_target": ("use_adaptive_entropy", (True,)),
    "hub_": ("push_to_hub", (True,)),
}


def check_idle(cfg: Config) -> list[str]:
    """Whether each argument has an effect."""
    args, known = cfg.algo.args, load_arguments(cfg.algo.name)
    given = {name: value for name, value in args.items() if name in known and value != known[name].default}
    problems = [f"algo.args.{name}={show(given[name])}: has no effect, {IDLE[name]}" for name in given if name in IDLE]
    for name, value in given.items():
        for begin, (switch, values) in READ_WITH.items():
            if name.startswith(begin) and args.get(switch) not in values:
                problems.append(
                    f"algo.args.{name}={show(value)}: has no effect without algo.args.{switch}={show(values[0])}"
                )
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
