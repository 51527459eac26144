"""Checks that the required hardware is present."""

from rlhf_exp import processes
from rlhf_exp.config import device
from rlhf_exp.config.hardware import is_elsewhere
from rlhf_exp.config.rules.packages import TRACKERS, name_vllm
from rlhf_exp.config.schema import Config
from rlhf_exp.config.values import one_of


def check_machine(cfg: Config) -> list[str]:
    """Whether the hardware for this config is present, and what depends on it fits together."""
    problems = []
    if cfg.device.name == "cuda" and not is_elsewhere(cfg) and not device.cuda_major():
        problems.append("device=cuda: no usable GPU, or a CPU build of torch; use device=cpu or device=auto")
    for name in cfg.logging.report_to:
        if name not in TRACKERS:
            problems.append(f"logging.report_to={name}: {one_of(name, TRACKERS)}")
    return problems + _check_hardware(cfg) + _check_attention(cfg) + _check_vllm(cfg)


def _check_hardware(cfg: Config) -> list[str]:
    """A run is on the hardware it was divided for; a dry run may be about any."""
    hardware, n = cfg.hardware, processes.count()
    key, needed = f"hardware={hardware.name}", ("gpus", "memory_gb", "tflops", "bandwidth_gbs")
    given = [name for name in needed if getattr(hardware, name) is not None]
    if missing := [name for name in needed if given and name not in given]:
        return [f"{key}: hardware.{missing[0]} is not set, which goes with hardware.{given[0]}"]
    if not given:
        return []
    if cfg.dry_run:
        return [f"device=cpu: not with {key}, which has GPUs; leave one of the two out"] * (cfg.device.name == "cpu")
    if cfg.device.use_cpu:
        return [f"{key}: needs a GPU, and this run is on a CPU; leave it out, or add dry_run=true"]
    if hardware.gpus == n:
        return []
    way = f"start with torchrun --nproc_per_node {hardware.gpus}" if hardware.gpus > 1 else "start without torchrun"
    return [f"{key}: is for {hardware.gpus} processes, and here are {n}; {way}, or leave it out"]


def _check_attention(cfg: Config) -> list[str]:
    if cfg.model.attn_implementation != "flash_attention_2":
        return []
    key = "model.attn_implementation=flash_attention_2"
    if not is_elsewhere(cfg) and (cfg.device.use_cpu or not device.has_bf16()):
        return [f"{key}: needs a GPU of Ampere or newer; use model.attn_implementation=sdpa"]
    if cfg.model.dtype == "float32":
        return [f"{key}: needs half precision; add model.dtype=bfloat16, or use model.attn_implementation=sdpa"]
    return []


def _check_vllm(cfg: Config) -> list[str]:
    args = cfg.algo.args
    if not args.get("use_vllm"):
        return []
    mode = args.get("vllm_mode", "colocate")
    method = cfg.generation.method
    if method == "compact":
        return [f"generation=compact: not with algo.args.use_vllm=true; use generation=vllm_{mode}"]
    if method.startswith("vllm") and method != f"vllm_{mode}":
        return [f"generation={method}: not with algo.args.vllm_mode={mode}; use generation=vllm_{mode}"]
    key = name_vllm(cfg)
    if cfg.peft.quantization:
        # Measured: 22% of their size after 20 rollouts, with an adapter of deviation 0.01 (docs/vllm.md).
        why = "TRL merges the adapter into the 4-bit weights and out again at each rollout, which changes them"
        return [f"{key}: not with peft={cfg.peft.name}: {why}; use peft=lora, or generation=trl"]
    if not cfg.device.use_cpu or is_elsewhere(cfg):
        return []
    if mode == "server":
        return [f"{key}: needs a GPU, since TRL hands weights to a server by NCCL; use generation=vllm_colocate"]
    if args.get("vllm_enable_sleep_mode"):
        return ["algo.args.vllm_enable_sleep_mode=true: needs a GPU; leave it out"]
    if device.find_version("vllm") and not device.find_version("vllm").endswith("+cpu"):
        way = "install vLLM's build for CPUs (docs/vllm.md), or use generation=trl"
        return [f"{key}: on a CPU, and the installed vLLM is built for GPUs; {way}"]
    return []
