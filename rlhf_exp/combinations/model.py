"""Where a model cannot come from."""

from typing import TYPE_CHECKING

from rlhf_exp.checks import suggest
from rlhf_exp.combinations import ARCHITECTURES, TOKENIZERS

if TYPE_CHECKING:
    from rlhf_exp.schema import Config


def check_model(cfg: "Config") -> list[str]:
    """Whether it is said where the weights come from."""
    model = cfg.model
    if model.path is not None and model.init is not None:
        return [f"model.path={model.path}: not with model={model.name}, which starts from random weights"]
    if model.path is None and model.init is None and model.name != "tiny":
        return [f"model.path=null: model={model.name} needs a hub id or a folder"]
    if cfg.algo.name not in model.learning_rate and "learning_rate" not in cfg.algo.args:
        return [f"model.learning_rate: has none for algo={cfg.algo.name}"]
    for key, known in (("architecture", ARCHITECTURES), ("tokenizer", TOKENIZERS)):
        if model.init is not None and (value := model.init.get(key)) not in known:
            return [f"model.init.{key}={value}: must be one of {', '.join(known)}{suggest(value, known)}"]
    return []
