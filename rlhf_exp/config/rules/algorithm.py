"""Refuses a task without the data that the algorithm needs, and values with which the algorithm could not learn.

Stays here: what TRL refuses only after minutes, or never.
"""

from collections.abc import Iterator, Sequence

from rlhf_exp.algorithms import ALGORITHMS, DEMONSTRATIONS, TRL_SAMPLING, Algorithm
from rlhf_exp.config.device import count_processes
from rlhf_exp.config.rules.files import check_function
from rlhf_exp.config.schema import TASKS, Config, conflict
from rlhf_exp.config.trl_arguments import load_arguments
from rlhf_exp.config.values import one_of
from rlhf_exp.errors import Problem, show

WITH_DIVERGENCE = {"sigmoid", "sigmoid_norm", "hinge", "ipo", "exo_pair", "robust", "discopop", "sft"}
"""Losses of DPO that TRL has for other divergences than the reverse KL."""

NEUTRAL: tuple[tuple, ...] = ("min_p", None, 0), ("repetition_penalty", None, 1), ("generation_kwargs", None, {})
"""Other sampling arguments, with the two values that leave the distribution to temperature, top_p and top_k alone."""


def check_task(cfg: Config) -> Iterator[str]:
    """Whether the task provides the data that the algorithm needs, and its own keys fit together."""
    algo, task = cfg.algo.name, cfg.task.name
    row, gives = cfg.algo.row, cfg.task.provides
    need = row.learns_from

    def able(row: Algorithm) -> bool:
        return row.plays or not cfg.task.turns

    if row.trains and need not in gives:
        tasks = [name for name, keys in TASKS.items() if need in keys.provides and name != task]
        fitting = [name for name, other in ALGORITHMS.items() if other.learns_from in gives and able(other)]
        remedy = f" until you set {cfg.task.provided_by[need]}" if need in cfg.task.provided_by else ""
        others = f"tasks with {need.split()[-1]}: {', '.join(tasks)}; algorithms for task={task}: {', '.join(fitting)}"
        yield conflict(cfg, "algo", f"needs {need}, and task={task} has none{remedy}; {others}")
    elif need == DEMONSTRATIONS and not cfg.task.demonstrates and cfg.task.samples is None:
        yield conflict(cfg, "algo", f"needs {cfg.task.provided_by[need]}")
    elif row.trains and not able(row):
        players = ", ".join(name for name, other in ALGORITHMS.items() if able(other))
        yield conflict(
            cfg, "algo", f"plays no episodes with tools, which task={task} asks for; use algo={players}, or none"
        )
    elif cfg.task.turns:
        yield from _check_episodes(cfg)
    for key, source in cfg.list_sources():
        yield from source.find_problems(key)
    if getattr(cfg.task, "samples", None) is not None and (row.online or not row.trains):
        others = ", ".join(name for name, row in ALGORITHMS.items() if not row.online and row.trains)
        yield conflict(cfg, "task.samples", f"algo={algo} learns from no given samples; allowed with {others}")


def _check_episodes(cfg: Config) -> Iterator[Problem]:
    """Whether episodes with tools can be played: by our decoding loop in one process, with weights that it reads."""
    if count_processes(cfg) > 1:
        yield conflict(cfg, "task", "is played by one process; leave scale and torchrun out")
    if cfg.peft.quantization:
        yield conflict(cfg, "peft", "has 4-bit weights, with which no episodes are played; use peft=lora")
    if cfg.algo.args.get("use_vllm"):
        yield conflict(cfg, "generation", "plays no episodes with tools; use generation=auto")
    if cfg.eval.engine == "vllm":
        yield conflict(cfg, "eval.engine", "plays no episodes with tools; use eval.engine=auto")
    for name in [name for name in TRL_SAMPLING if cfg.algo.args.get(name) is not None]:
        yield conflict(cfg, f"algo.args.{name}", "has no effect on episodes with tools; leave it out")


def check_algorithm(cfg: Config) -> Iterator[str]:
    """Whether the loss is one of the algorithm's, its arguments fit together, and rewards depend on completions."""
    row, args = cfg.algo.row, cfg.algo.args
    chosen = args.get("loss_type", [])
    losses = chosen if isinstance(chosen, list) else [chosen]
    if row.losses:
        yield from (explain_loss(loss, cfg.algo.name) for loss in losses if loss not in row.losses)
    if cfg.algo.trainer is not None:
        yield from check_function("algo.trainer", cfg.algo.trainer)
    if cfg.generation.method == "compact":
        for name in [name for name in TRL_SAMPLING if args.get(name) is not None]:
            yield conflict(cfg, f"algo.args.{name}", "not with generation=compact; use generation=trl")
    if row.has_implicit_rewards and args.get("beta") == 0 and not {*losses} & {*row.losses_without_kl}:
        yield conflict(cfg, "algo.args.beta", "the loss is scaled by it, so that nothing would be learned; must be > 0")


def find_other_losses(cfg: Config, overrides: Sequence[str], chosen: str | None) -> list[Problem]:
    """A typed loss of another algorithm that has one loss without a name: it leaves `loss_type` out. And a loss that is
    typed beside the `chosen` option of the group, which sets more than the loss: of one name, runs would differ. A run
    that began so resumes, and a file may set the loss alone."""
    alone = any(text.lstrip("+").startswith("algo.args.loss_type=") for text in overrides)
    loss, has_options = cfg.algo.args.get("loss_type"), cfg.algo.row.losses and cfg.algo.row.loss is None
    known = chosen is not None and loss != chosen and loss in cfg.algo.row.losses
    if has_options and alone and cfg.resume is None and known:
        why = f"changes the loss alone, and keeps the other settings of loss_type={chosen}; use loss_type={loss}"
        return [Problem("algo.args.loss_type", "conflict", loss, why)]
    typed = [text.partition("=")[2] for text in overrides if text.startswith("loss_type=")]
    unnamed = [name for name, row in ALGORITHMS.items() if not row.losses and name != cfg.algo.name]
    return [explain_loss(loss, cfg.algo.name) for loss in typed if loss in unnamed]


def explain_loss(loss: object, algo: str) -> Problem:
    """The problem of a loss that the algorithm lacks: those that it has."""
    losses = ALGORITHMS[algo].losses
    allowed = one_of(loss, losses) if losses else "which has one loss; leave it out"
    return Problem("loss_type", "conflict", loss, f"not a loss of algo={algo}, {allowed}")


def check_groups(cfg: Config) -> Iterator[Problem]:
    """Whether the number of completions per step is a multiple of `num_generations`, the size of a group. TRL refuses
    it too; a remedy of a finished run is tried without TRL."""
    if not cfg.algo.row.compares_groups:
        return
    args = {name: cfg.algo.args.get(name, item.default) for name, item in load_arguments(cfg.algo.name).items()}
    key, repeats = "per_device_train_batch_size", count_processes(cfg)
    repeats *= args["steps_per_generation"] or args["gradient_accumulation_steps"]
    if args["generation_batch_size"]:
        key, repeats = "generation_batch_size", 1
    group, total = args["num_generations"], args[key] * repeats
    if group is None or group < 2:
        yield Problem("algo.args.num_generations", "range", group, "a whole number >= 2")
    elif total % group:
        why = f"makes {total} completions per step, not a multiple of algo.args.num_generations={group}"
        yield Problem(f"algo.args.{key}", "conflict", args[key], why)


def check_grpo(cfg: Config) -> Iterator[Problem]:
    """Whether `hybrid_alpha` and `loss_constant` are set only for losses that read them, and a curriculum rises from
    step 0, within budget and steps."""
    args, loss = cfg.algo.args, cfg.algo.args.get("loss_type")
    for name, losses in {"hybrid_alpha": ["hybrid"], "loss_constant": ["dr_grpo", "hybrid"]}.items():
        if args.get(name) is not None and loss not in losses:
            why = f"only with loss_type={' or '.join(losses)}, not with loss_type={show(loss)}"
            yield conflict(cfg, f"algo.args.{name}", why)
    budgets, steps = args.get("curriculum_budgets", []), args.get("curriculum_from_steps", [])
    last = args.get("max_steps", -1)
    if budgets != sorted({*budgets}) or max(budgets, default=0) > cfg.max_tokens:
        yield conflict(cfg, "algo.args.curriculum_budgets", f"must rise, to at most max_tokens={cfg.max_tokens}")
    if steps != sorted({*steps}) or steps[:1] != [0] * min(1, len(budgets)) or len(steps) != len(budgets):
        why = "must rise from 0, with a step for each of algo.args.curriculum_budgets"
        yield conflict(cfg, "algo.args.curriculum_from_steps", why)
    elif 0 < last <= max(steps, default=0):
        why = f"must be below algo.args.max_steps={last}, or a stage never begins"
        yield conflict(cfg, "algo.args.curriculum_from_steps", why)


def check_sft(cfg: Config) -> Iterator[Problem]:
    """Whether rows without padding are not to be cut, which TRL cannot do, and refuses after the baseline."""
    args = cfg.algo.args
    if cfg.algo.name == "sft" and args.get("padding_free") and not args.get("packing") and args.get("max_length"):
        why = "cuts no row; use algo.args.max_length=null or +algo.args.packing=true"
        yield conflict(cfg, "algo.args.padding_free", why)


def check_late(cfg: Config) -> Iterator[Problem]:
    """Whether TRL's trainers take the arguments together, which they say only once the model is loaded."""
    args, loss = cfg.algo.args, cfg.algo.args.get("loss_type")
    losses = {*(loss if isinstance(loss, list) else [loss])}
    follows = args.get("sync_ref_model")
    cases = (
        ("sync_ref_model", follows and cfg.peft.lora is not None, f"not with peft={cfg.peft.name}, whose reference is"
         " the base model; leave it out, or use peft=none"),
        ("sync_ref_model", follows and args.get("precompute_ref_log_probs"), "not with a reference that is scored once;"
         " add algo.args.precompute_ref_log_probs=false"),
        ("sync_ref_model", follows and cfg.algo.row.online and args.get("beta") == 0, "needs a reference, which is not"
         " there with algo.args.beta=0; leave it out"),
        ("f_divergence_type", args.get("f_divergence_type", "reverse_kl") != "reverse_kl" and losses - WITH_DIVERGENCE,
         f"only with losses of {', '.join(sorted(WITH_DIVERGENCE))}"),
        ("label_smoothing", "exo_pair" in losses and not args.get("label_smoothing"), "must be > 0 with the loss"
         " exo_pair; its paper has +algo.args.label_smoothing=0.001"),
        ("use_weighting", args.get("use_weighting") and losses & {"aot", "aot_unpaired"}, "not with the losses aot and"
         " aot_unpaired, which sort the pairs; leave it out"),
    )  # fmt: skip
    for name, is_wrong, why in cases:
        if is_wrong:
            yield conflict(cfg, f"algo.args.{name}", why)


def check_teacher(cfg: Config) -> Iterator[Problem]:
    """Whether there is a teacher where, and only where, one is learned from."""
    if cfg.algo.row.has_teacher and cfg.teacher.path is None:
        why = f"algo={cfg.algo.name} learns from a teacher; set the folder of a run or a model, or a hub id"
        yield conflict(cfg, "teacher.path", why)
    elif cfg.teacher.path is not None and not cfg.algo.row.has_teacher:
        yield conflict(cfg, "teacher.path", f"algo={cfg.algo.name} has no teacher; use algo=distill, or leave it out")
    if cfg.algo.row.has_teacher and cfg.algo.args["beta"] > 1:
        yield conflict(cfg, "algo.args.beta", "must be at most 1, KL(policy || teacher); 0 is KL(teacher || policy)")


def check_ppo(cfg: Config) -> Iterator[Problem]:
    """Whether PPO's arguments fit together."""
    args = cfg.algo.args
    if cfg.algo.name != "ppo":
        return
    if args.get("target_kl") is not None:
        if args.get("init_kl_coef") == 0:
            why = "must be > 0 with algo.args.target_kl, which steers it by factors"
            yield conflict(cfg, "algo.args.init_kl_coef", why)
        for name in [name for name, *neutral in NEUTRAL if args.get(name) not in neutral]:
            why = "not with algo.args.target_kl, which is steered to by a KL of temperature, top_p and top_k alone"
            yield conflict(cfg, f"algo.args.{name}", why)
    if args.get("critic") == "separate" and cfg.peft.quantization:
        why = "is trained in full, which 4-bit weights cannot be; use algo.args.critic=shared"
        yield conflict(cfg, "algo.args.critic", why)
    rounds, accumulated = args.get("steps_per_generation"), args.get("gradient_accumulation_steps", 1)
    if rounds is not None and rounds % accumulated:
        why = f"must be a multiple of algo.args.gradient_accumulation_steps={accumulated}"
        yield conflict(cfg, "algo.args.steps_per_generation", f"{why}, for a minibatch must not span two rollouts")
    if args.get("critic_warmup_steps", 0) >= args.get("max_steps", -1) > 0:
        why = f"must be below algo.args.max_steps={args['max_steps']}, or the policy learns nothing"
        yield conflict(cfg, "algo.args.critic_warmup_steps", why)
