"""Rejects a model without a usable source of weights or of unknown size, and keys that contradict `peft=`."""

from rlhf_exp.config.model_shape import find_shape, list_modules
from rlhf_exp.config.rules.paths import find_missing_models
from rlhf_exp.config.schema import Config
from rlhf_exp.config.values import find_pattern_problem, one_of, show

ARCHITECTURES, TOKENIZERS = ("gpt2", "qwen2", "qwen3"), ("words", "bytes")
"""Of models with random weights (models/untrained.py)."""

BY_SIZE = ("learning_rate", "per_device_train_batch_size", "gradient_accumulation_steps", "steps_per_generation")
"""Arguments whose defaults depend on the model's size."""


def check_model(cfg: Config) -> list[str]:
    """Whether the config names one source of weights."""
    model = cfg.model
    if model.path is not None and model.init is not None:
        return [f"model.path={model.path}: not with model={model.name}, which starts from random weights"]
    if model.path is None and model.init is None and model.name != "tiny":
        return [f"model.path=null: model={model.name} needs a hub id or a folder"]
    for key, known in (("architecture", ARCHITECTURES), ("tokenizer", TOKENIZERS)):
        if model.init is not None and (value := model.init.get(key)) not in known:
            return [f"model.init.{key}={value}: {one_of(value, known)}"]
    return []


def check_size(cfg: Config) -> list[str]:
    """Whether the model's size is known if a default depends on it."""
    model = cfg.model
    unknown = [f"algo.args.{name}" for name in BY_SIZE if name in cfg.algo.args and cfg.algo.args[name] is None]
    shape = find_shape(model.path, model.base, model.init, model.name)
    if not unknown or shape.parameters or model.parameters:
        return []
    return (
        check_model(cfg)
        or find_missing_models(cfg)
        or [
            f"model.path={model.path}: {shape.source}, so its size is not known, and the learning rate and"
            f" batches depend on it; set model.parameters=7e9 (as many as it has), or {', '.join(unknown)}"
        ]
    )


def check_peft(cfg: Config) -> list[str]:
    """Whether lora and quantization are set exactly if the chosen `peft=` has them."""
    peft = cfg.peft
    problems = []
    if peft.lora is None and peft.name != "none":
        problems.append(f"peft.lora=null: not with peft={peft.name}, which trains an adapter; use peft=none")
    if peft.lora is not None and peft.name == "none":
        problems.append("peft.lora: not with peft=none, which trains every weight; use peft=lora")
    if not peft.quantization and peft.name == "qlora":
        problems.append("peft.quantization: must say how with peft=qlora; use peft=lora for an adapter without it")
    if peft.quantization and peft.name != "qlora":
        problems.append(f"peft.quantization: not with peft={peft.name}; use peft=qlora")
    return problems or _check_targets(cfg)


def _check_targets(cfg: Config) -> list[str]:
    """Whether the model has the modules that adapters are to be added to; peft ignores a name that fits none, and takes
    text for a regular expression of whole names."""
    targets, model = cfg.peft.lora and cfg.peft.lora.target_modules, cfg.model
    if targets is None or targets == "all-linear":
        return []
    key = "peft.lora.target_modules"
    if isinstance(targets, str) and targets.replace("_", "").isalnum():
        return [f"{key}={targets}: must be all-linear, or a list of names; did you mean [{targets}]?"]
    if isinstance(targets, str):
        problem = find_pattern_problem(targets)
        return [f"{key}={show(targets)}: {problem}"] if problem else []
    if not targets:
        return [f"{key}=[]: must name a module, or be all-linear"]
    known = list_modules(model.path, model.base, model.init, model.name)
    return [
        f"{key}={show(targets)}: model={model.path or model.name} has no {name}; {one_of(name, known)}"
        for name in targets
        if known and name.rpartition(".")[2] not in known
    ]
