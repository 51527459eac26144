"""Refuses a task without the data that the algorithm needs, a wrong loss, and what TRL would refuse only later."""

from collections.abc import Sequence

from rlhf_exp.algorithms import ALGORITHMS, TRL_SAMPLING
from rlhf_exp.config.overrides import name_key
from rlhf_exp.config.rules.paths import refuse_function
from rlhf_exp.config.schema import TASKS, Config
from rlhf_exp.config.values import one_of, show


def check_algo(cfg: Config) -> list[str]:
    """Whether the task provides the data that the algorithm needs, and the loss is one of the algorithm's."""
    algo, task, problems = cfg.algo.name, cfg.task.name, []
    row, gives = ALGORITHMS[algo], cfg.task.provides
    need = row.learns_from
    if row.trains and need not in gives:
        tasks = [name for name, keys in TASKS.items() if need in keys.provides and name != task]
        fitting = [name for name, other in ALGORITHMS.items() if other.learns_from in gives]
        remedy = f" until you set {cfg.task.provided_by[need]}" if need in cfg.task.provided_by else ""
        problems.append(
            f"algo={algo}: needs {need}, and task={task} has none{remedy}; tasks with {need.split()[-1]}:"
            f" {', '.join(tasks) or 'none yet'}; algorithms for task={task}: {', '.join(fitting)}"
        )
    elif lacking := cfg.task.find_lacking(need):
        problems.append(f"algo={algo}: {lacking}")
    chosen = cfg.algo.args.get("loss_type", [])  # left out: TRL's default
    for loss in chosen if isinstance(chosen, list) else [chosen]:
        if row.losses and loss not in row.losses:
            problems.append(_refuse_loss(loss, algo))
    if cfg.train_tokens is not None and not row.trains:
        problems.append(f"train_tokens={cfg.train_tokens}: has no effect, algo={algo} trains nothing; leave it out")
    if cfg.algo.trainer is not None:
        key = f"algo.trainer={cfg.algo.trainer}"
        idle = [f"{key}: has no effect, algo={algo} trains nothing; leave it out"]
        problems += refuse_function(key, cfg.algo.trainer) if row.trains else idle
    problems += _check_sync(cfg) + _check_neighbours(cfg)
    if cfg.generation.method == "compact":
        problems += [
            f"algo.args.{name}={cfg.algo.args[name]}: not with generation=compact; use generation=trl"
            for name in TRL_SAMPLING
            if cfg.algo.args.get(name) is not None
        ]
    return problems


def check_task(cfg: Config) -> list[str]:
    """Whether a task's own keys fit together, and the algorithm can learn from its samples."""
    problems = [problem for key, task in cfg.task.list_sources() for problem in task.find_problems(key)]
    samples = getattr(cfg.task, "samples", None)
    row = ALGORITHMS[cfg.algo.name]
    if samples is not None and not row.trains:
        problems.append(f"task.samples={samples}: algo={cfg.algo.name} learns from no samples; leave it out")
    elif samples is not None and row.online:
        fitting = ", ".join(name for name, row in ALGORITHMS.items() if not row.online and row.trains)
        problems.append(
            f"task.samples={samples}: algo={cfg.algo.name} learns from samples of its own; allowed with {fitting}"
        )
    return problems


def find_other_losses(cfg: Config, overrides: Sequence[str]) -> list[str]:
    """A line for a typed loss of another algorithm that has one loss without a name: it leaves `loss_type` out."""
    typed = [text.partition("=")[2] for text in overrides if text.startswith("loss_type=")]
    unnamed = [name for name, row in ALGORITHMS.items() if not row.losses and name != cfg.algo.name]
    return [_refuse_loss(loss, cfg.algo.name) for loss in typed if loss in unnamed]


def find_idle_arguments(algo: str, overrides: Sequence[str]) -> list[str]:
    """A line for each typed argument of TRL, or loss, of an algorithm that trains nothing."""
    if algo not in ALGORITHMS or ALGORITHMS[algo].trains:
        return []
    typed = [text.lstrip("+~") for text in overrides if name_key(text).startswith(("algo.args.", "loss_type"))]
    return [f"{text}: has no effect, algo={algo} trains nothing; leave it out" for text in typed]


def _refuse_loss(loss: object, algo: str) -> str:
    losses = ALGORITHMS[algo].losses
    allowed = one_of(loss, losses) if losses else "which has one loss; leave it out"
    return f"loss_type={show(loss)}: not a loss of algo={algo}, {allowed}"


def _check_neighbours(cfg: Config) -> list[str]:
    """Whether TRL's kto has neighbouring rows in each batch, in the order in which it joined them for its KL."""
    if not ALGORITHMS[cfg.algo.name].unpaired or cfg.algo.args.get("loss_type", "kto") != "kto":
        return []
    rows, order = (cfg.algo.args.get(name) for name in ("per_device_train_batch_size", "train_sampling_strategy"))
    key, way, problems = "algo.args", "or algo.args.loss_type=apo_zero_unpaired", []
    if rows == 1:
        line = "has no other row to take the KL from; must be at least 2"
        problems.append(f"{key}.per_device_train_batch_size=1: {line}, {way}")
    if order == "random":  # check_idle refuses the others
        line = "the KL is taken from neighbours in a fixed order; leave it out"
        problems.append(f"{key}.train_sampling_strategy={show(order)}: {line}, {way}")
    return problems


def _check_sync(cfg: Config) -> list[str]:
    """Whether there is a separate reference that could follow the policy; TRL would refuse it late."""
    args = cfg.algo.args
    if not args.get("sync_ref_model"):
        return []
    key, problems = "algo.args.sync_ref_model=true", []
    if cfg.peft.lora is not None:
        problems.append(f"{key}: not with peft={cfg.peft.name}, whose reference is the base itself; use peft=none")
    row = ALGORITHMS[cfg.algo.name]
    if row.online and row.kl_price == "algo.args.beta" and not args.get("beta"):
        problems.append(f"{key}: not with algo.args.beta=0, which needs no reference; use algo.args.beta=0.05")
    if args.get("precompute_ref_log_probs"):
        problems.append(
            f"{key}: not with algo.args.precompute_ref_log_probs=true, which scores the reference once; use"
            " algo.args.precompute_ref_log_probs=false"
        )
    return problems
