"""Defines for conf/ the resolvers `${rlhf_exp.NAME:...}`, and the configs that come from the table of algorithms."""

from hydra.core.config_store import ConfigStore
from omegaconf import OmegaConf

from rlhf_exp.algorithms import ALGORITHMS, CRITIC_RATES
from rlhf_exp.config import defaults, device


def register_resolvers() -> None:
    """Register them with OmegaConf and Hydra; a second call changes nothing."""
    resolvers = {
        "default": defaults.resolve_default,
        "rate": defaults.resolve_rate,
        "use_cpu": lambda: device.cuda_major() == 0,
        "attention": device.choose_attention,
    }
    for name, resolve in resolvers.items():
        OmegaConf.register_new_resolver(f"rlhf_exp.{name}", resolve, replace=True)
    # The config `learning_rates`, and a loss_type for each algorithm that has no files in conf/loss_type.
    rates = {name: f"${{rlhf_exp.rate:{name}}}" for name in (*ALGORITHMS, *CRITIC_RATES)}
    ConfigStore.instance().store("learning_rates", rates, package="model.learning_rate")
    for name, row in ALGORITHMS.items():
        if row.loss is not None or not row.losses:
            loss = {"loss_type": row.loss} if row.loss else {}
            ConfigStore.instance().store(name, loss, group="loss_type", package="algo.args")
