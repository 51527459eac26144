"""Refuses TRL's arguments that would do nothing here, contradict another key, or make resuming inexact."""

from collections.abc import Iterator

from rlhf_exp.config.schema import Config, conflict
from rlhf_exp.config.trl_arguments import load_arguments
from rlhf_exp.errors import Problem

_EVAL = "TRL evaluates nothing here; to measure in training use eval.every"
_PUSH = "the model is pushed after the report; use hub.push=true hub.repo=ORG/NAME"
NOT_HERE = {
    **dict.fromkeys(("eval_", "do_eval", "per_device_eval", "num_generations_eval", "load_best", "metric_for"), _EVAL),
    **dict.fromkeys(("push_to_hub", "hub_"), _PUSH),
    "teacher_model_": "use teacher.path",
    "run_name": "use run.name",
    "deepspeed": "use scale=fsdp2",
    "project": "use logging.wandb_project",
    "resume_from_checkpoint": "use resume=RUN_DIR",
    "save_only_model": "no run could be resumed from its checkpoints; use algo.args.save_strategy=no",
    "ignore_data_skip": "a resumed run would begin its epoch again; leave it out",
    "logging_strategy": "the watch for a loss that is not finite reads what is logged; use algo.args.logging_steps",
}
"""Arguments, or the beginnings of their names, of which any value other than TRL's default is refused."""

REMOVED: dict[tuple[str, object], str] = {
    ("pad_token", None): "leave it out, for the tokenizer's is taken",
    ("truncation_mode", "keep_end"): "use keep_start, the default",
    ("use_liger_kernel", None): "leave it out",
    ("use_transformers_paged", None): "use use_transformers_continuous_batching",
    ("vllm_importance_sampling_cap", None): "use vllm_importance_sampling_clip_max",
}
"""What TRL 2.0 removes, as TRL 1.16 announces: arguments with a value, None of any but the default."""

OWNED = {
    "output_dir": "output_dir",
    "seed": "seed",
    "use_cpu": "device.use_cpu",
    "bf16": "device.bf16",
    "report_to": "logging.report_to",
    "trust_remote_code": "model.trust_remote_code",
    "model_init_kwargs": "model.dtype, model.attn_implementation or peft.quantization",
    "max_completion_length": "max_tokens",
    "max_tool_calling_iterations": "task.turns",
    "reward_weights": "reward.weights",
}
"""Arguments that follow from other keys (trl_args.py fills them in), and the keys that set them."""

SAMPLING = (
    *("max_new_tokens", "max_length", "max_tokens", "num_return_sequences", "num_beams", "n", "do_sample"),
    *("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "cache_implementation"),
)
"""Entries of generation_kwargs, as transformers and vLLM call them, that other keys set."""


def check_arguments(cfg: Config) -> Iterator[Problem]:
    """Whether each argument is one for a run of this package, and is not set by another key."""
    args, known = cfg.algo.args, load_arguments(cfg.algo.name)
    for name in [name for name, value in args.items() if name in known and value != known[name].default]:
        for why in [why for begin, why in NOT_HERE.items() if name.startswith(begin)]:
            yield conflict(cfg, f"algo.args.{name}", why)
        for why in [why for (old, given), why in REMOVED.items() if name == old and given in (None, args[name])]:
            yield conflict(cfg, f"algo.args.{name}", f"TRL 2.0 has it no more; {why}")
    if "num_train_epochs" in args and (steps := args.get("max_steps", -1)) > 0:
        why = f" with algo.args.max_steps={steps}; add algo.args.max_steps=-1"
        yield conflict(cfg, "algo.args.num_train_epochs", why, "idle")
    for name in [name for name in args.get("generation_kwargs") or {} if name in SAMPLING]:
        yield Problem(f"algo.args.generation_kwargs.{name}", "owned", hint="; use the key of that name")
    for name in [name for name in args if name in OWNED]:
        yield conflict(cfg, f"algo.args.{name}", f"; use {OWNED[name]}", "owned")
