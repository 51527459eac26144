"""Finds typed keys that nothing reads in an experiment: whoever types one expects an effect.

    find_unread(cfg, ["eval.every_rows=64"])    # ["eval.every_rows=64: has no effect without eval.every"]

Only typed keys are looked at, since files hold settings for several experiments; of a sweep only those that no job
reads (launch/sweep.py). TRL's arguments are in arguments.py.
"""

from collections.abc import Callable, Iterator, Sequence

from rlhf_exp.algorithms import ALGORITHMS, CRITIC_RATES, DEMONSTRATIONS
from rlhf_exp.config.overrides import name_key
from rlhf_exp.config.schema import Config, Ppo
from rlhf_exp.errors import Problem

Reads = Callable[[Config], object]
"""Whether keys are read."""

TABLE: tuple[tuple[tuple[str, ...], Reads, str], ...] = (
    (("hub.private",), lambda cfg: cfg.hub.push, "without hub.push=true"),
    (
        ("logging.wandb_project", "logging.wandb_mode", "logging.entity", "logging.group"),
        lambda cfg: "wandb" in cfg.logging.report_to,
        "without logging=wandb",
    ),
    (("eval.every_rows",), lambda cfg: cfg.eval.every, "without eval.every, the steps between two measurements"),
    (
        ("eval.completions", "eval.start_completions", "eval.greedy", "monitor.probe_rows", "monitor.probe_tokens"),
        lambda cfg: not cfg.algo.row.scores,
        "with {algo}, whose model completes nothing",
    ),
    (("monitor.",), lambda cfg: cfg.algo.row.trains, "with {algo}, which trains nothing"),
    (("algo.kl_horizon",), lambda cfg: isinstance(cfg.algo, Ppo) and cfg.algo.target_kl, "without algo.target_kl"),
    (
        ("task.sampling.",),
        lambda cfg: cfg.learns_from_samples,
        "with {algo}, which does not learn from samples of the start model here",
    ),
    (
        ("task.sampling.rows", "task.sampling.completions"),
        lambda cfg: cfg.task.samples in (None, "self"),
        "with task.samples, which are drawn already",
    ),
    (
        ("task.traces.",),
        lambda cfg: cfg.algo.row.learns_from == DEMONSTRATIONS and not cfg.learns_from_samples,
        "with {algo}, which does not learn from search traces here",
    ),
    (
        ("task.numbers", "task.low", "task.high", "task.target_low", "task.target_high"),
        lambda cfg: cfg.task.source == "generated",
        "without task.source=generated",
    ),
    (("task.of.",), lambda cfg: cfg.task.source == "task", "with task.source=file"),
    (
        ("task.hub_id", "task.hub_config"),
        lambda cfg: cfg.task.source == "hub" or not cfg.task.chooses_by_source,
        "without task.source=hub",
    ),
    (("reward.normalize",), lambda cfg: "model" in cfg.reward.weights, "without reward=model"),
)
"""Keys, or their beginnings up to a dot, with when they are read; and why not, otherwise."""


def find_unread(cfg: Config, typed: Sequence[str]) -> list[Problem]:
    """A problem for each typed override of a key that nothing reads. A resumed run keeps the overrides that it has."""
    given = {name_key(text): text.partition("=")[2] for text in typed if not text.startswith("~")}
    found = []
    for key, value in given.items() if not cfg.resume else ():
        why = next((why for keys, reads, why in _list_rules(cfg) if _is_one(key, keys) and not reads(cfg)), None)
        if why and value != "null":
            found.append(Problem(key, "idle", value, f" {why.format(algo=f'algo={cfg.algo.name}')}"))
    return found


def _list_rules(cfg: Config) -> Iterator[tuple[tuple[str, ...], Reads, str]]:
    """The table, and the same for each learning rate of the model."""
    yield from TABLE
    own = cfg.algo.name, f"{getattr(cfg.algo, 'critic', None)}_critic"
    others = tuple(f"model.learning_rate.{name}" for name in (*ALGORITHMS, *CRITIC_RATES) if name not in own)
    yield others, lambda cfg: False, "with {algo}"


def _is_one(key: str, keys: tuple[str, ...]) -> bool:
    return any(key.startswith(begin) if begin.endswith(".") else key == begin for begin in keys)
