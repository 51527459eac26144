"""The resolvers that conf/ uses, `${rlhf_exp.NAME:...}`, made known to OmegaConf."""

from omegaconf import OmegaConf

from rlhf_exp.config import defaults, device


def register_resolvers() -> None:
    """Register them all; a second call changes nothing."""
    resolvers = {
        "default": defaults.resolve_default,
        "rate": defaults.resolve_rate,
        "use_cpu": lambda: device.cuda_major() == 0,
        "attention": device.choose_attention,
    }
    for name, resolve in resolvers.items():
        OmegaConf.register_new_resolver(f"rlhf_exp.{name}", resolve, replace=True)
