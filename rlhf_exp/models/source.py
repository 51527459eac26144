"""Finds out once where a model comes from; everything that loads it takes the result. Imports no ML library.

    source = locate_start_model(cfg)         # what cfg.model names
    source.path, source.name, source.is_adapter, source.is_classifier
    source.at(run_dir / "model")             # what the run saved, to be loaded in the same way
    locate_reward_model(cfg)                 # what cfg.reward.path names; locate_teacher

A path is a folder or a hub id, of full weights or of an adapter, which holds the difference to a base.
"""

import json
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlhf_exp.config.hub import find_made, is_hub_id
from rlhf_exp.config.model_shape import ASSETS, find_local_base
from rlhf_exp.config.schema import Config
from rlhf_exp.errors import ConfigError, refusing
from rlhf_exp.runs.inputs import hash_weights
from rlhf_exp.runs.load import refusing_damage
from rlhf_exp.runs.manifest import explain_damage, remedy
from rlhf_exp.runs.settings import read_config

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedConfig

OFFLINE = (
    "without a network use a folder, such as one of this package's models: model=tiny, model=tiny_gpt2,"
    " or model=smollm2_135m after `make smollm2` (python -m rlhf_exp.models.smollm2)"
)
OTHER_BASE = "name the one it was trained on: model.base=FOLDER, or merge the two with peft's merge_and_unload"


@dataclass(frozen=True)
class ModelSource:
    """A model's path, and how it is loaded.

    Attributes:
        path: its folder or hub id.
        key: the config key that names it, for messages.
        name: its name in records: the option's name, or the end of a path given instead of the option's own.
        base: for an adapter, the model to load instead of the recorded base.
        quantization: arguments of BitsAndBytesConfig.
        chat_template: the name of a template of TRL's that takes the place of its own.
        enable_thinking: what the chat template gets; None leaves it to the template.
    """

    path: str
    key: str | None = None
    name: str = ""
    base: str | None = None
    dtype: "str | torch.dtype" = "float32"
    quantization: dict[str, Any] | None = None
    attn_implementation: str | None = None
    trust_remote_code: bool = False
    use_cpu: bool = True
    chat_template: str | None = None
    enable_thinking: bool | None = None

    def at(self, folder: str | Path) -> "ModelSource":
        """The same model in another folder, such as the trained one: an adapter that a run saved records its base."""
        return replace(self, path=str(folder), base=None)

    @cached_property
    def is_adapter(self) -> bool:
        return (Path(self.path) / "adapter_config.json").is_file()

    @cached_property
    def weights(self) -> str:
        """The folder or hub id of full weights: its own, or an adapter's base.

        What this machine has of it is taken first (`find_local_base`), so that a run's folder can be moved.

        Raises:
            ConfigError: the base is an adapter too.
        """
        if not self.is_adapter:
            return self.path
        recorded = self.base or self._adapter_config["base_model_name_or_path"]
        if self.base is None and (local := find_local_base(Path(self.path), recorded)):
            return local
        base = self.at(expand(recorded))
        if base.is_adapter:
            raise self.refuse(f"is an adapter, and so is its base {recorded}; {OTHER_BASE}")
        return base.path

    @property
    def tokenizer(self) -> str:
        """Where its tokenizer is; an adapter that brings none has its base's."""
        return self.path if (Path(self.path) / "tokenizer_config.json").is_file() else self.weights

    @cached_property
    def config(self) -> "PreTrainedConfig":
        """The model's configuration, or that of an adapter's base. It may be downloaded from the hub.

        Raises:
            ConfigError: it cannot be loaded; the message names the local option.
        """
        from transformers import AutoConfig

        weights = self.weights
        with self.loading(Exception):  # a damaged file leads to errors of many types
            config = AutoConfig.from_pretrained(weights, trust_remote_code=self.trust_remote_code)
        asked = str(config.get_text_config()._attn_implementation or config._attn_implementation)
        if "/" in asked and not self.trust_remote_code:
            why = f"its config.json asks for attention by the code of {asked} from the hub, which would be run here"
            raise self.refuse(f"{why}; take _attn_implementation out of it, or set model.trust_remote_code=true")
        return config

    @cached_property
    def is_classifier(self) -> bool:
        """Whether it is a sequence classifier, as reward models are. Its config may be downloaded from the hub.

        Raises:
            ConfigError: that cannot be read.
        """
        if self.is_adapter:
            return self._adapter_config.get("task_type") == "SEQ_CLS"
        return any(name.endswith("ForSequenceClassification") for name in self.config.architectures or [])

    def check_language_model(self) -> None:
        """Whether it is a language model.

        Raises:
            ConfigError: it is a classifier.
        """
        if self.is_classifier:
            raise self.refuse("holds a reward model; must be a language model")

    def identify(self) -> str:
        """The identity of weights and tokenizer: a hash of the files, or the commit of a hub id."""
        if Path(self.path).is_dir():
            return hash_weights(Path(self.path))
        from huggingface_hub import snapshot_download

        return Path(snapshot_download(self.path, local_files_only=True)).name

    def name_dtype(self) -> str:
        """The dtype of its weights once loaded, such as float32, for vLLM, whose own `auto` makes bfloat16 of that."""
        dtype = self.config.dtype if self.dtype == "auto" else self.dtype
        return str(dtype or "float32").removeprefix("torch.")

    def check_whole(self) -> None:
        """Whether it, and the base of an adapter, are as a run has saved them.

        Raises:
            ConfigError: a file is damaged or missing.
        """
        for folder in dict.fromkeys((Path(self.path), Path(self.weights))):
            if reason := explain_damage(folder):
                of_base = "" if folder == Path(self.path) else f"of its base {folder}, "
                raise self.refuse(f"{of_base}{reason}; {remedy(folder)}")

    @property
    def place(self) -> str:
        """Begins each message about it."""
        return f"{self.key}={self.path}" if self.key else self.path

    def refuse(self, problem: str) -> ConfigError:
        """The error to raise, in one line: key=path: the problem."""
        return ConfigError([f"{self.place}: {problem}"])

    def loading(self, *errors: type[Exception]) -> AbstractContextManager[None]:
        """Inside the `with`, one of these errors says that it cannot be loaded; for a hub id with the local option."""
        hint = "" if Path(self.path).is_dir() else OFFLINE
        return refusing(f"{self.place}: cannot be loaded", *errors, hint=hint)

    @cached_property
    def _adapter_config(self) -> dict[str, Any]:
        with refusing_damage(self.path):
            return json.loads((Path(self.path) / "adapter_config.json").read_text(encoding="utf-8"))


def locate_start_model(cfg: Config) -> ModelSource:
    """The model that cfg.model names; with `init` it will be made in the run's folder (loading.py)."""
    model, path, name = cfg.model, cfg.model.path, cfg.model.name
    made = find_made(name, "")  # another folder of the same model has another name
    if path not in (None, made) and not (is_hub_id(path) and name != "tiny"):
        name = "/".join(Path(path).parts[-2:])
    shared = ("base", "dtype", "attn_implementation", "trust_remote_code", "chat_template", "enable_thinking")
    how = {key: getattr(model, key) for key in shared}
    how |= {"quantization": cfg.peft.quantization, "use_cpu": cfg.device.use_cpu}
    return ModelSource(str(ASSETS / model.name) if path is None else expand(path), "model.path", name, **how)


def locate_reward_model(cfg: Config) -> ModelSource:
    """The reward model that cfg.reward.path names (`_locate_saved`)."""
    assert cfg.reward.path is not None  # checked by the callers
    return _locate_saved(cfg, "reward.path", cfg.reward.path)


def locate_teacher(cfg: Config) -> ModelSource:
    """The teacher that cfg.teacher.path names (`_locate_saved`)."""
    assert cfg.teacher.path is not None
    return _locate_saved(cfg, "teacher.path", cfg.teacher.path)


def _locate_saved(cfg: Config, key: str, typed: str) -> ModelSource:
    """For a run's folder the model that the run saved, in its dtype and quantization; else that folder or hub id, in
    cfg.model.dtype.

    Raises:
        ConfigError: the run has saved no model, or its config is damaged.
    """
    path = expand(typed)
    source = replace(locate_start_model(cfg), path=path, key=key, base=None, quantization=None)
    model = Path(path) / "model"
    if not (Path(path) / ".hydra" / "config.yaml").is_file():
        return source
    if not model.is_dir():
        raise source.refuse("a run that has saved no model; its run.json says how far it got")
    with refusing_damage(f"{key}={typed}"):
        run = read_config(Path(path))
        return replace(source, path=str(model), dtype=run["model"]["dtype"], quantization=run["peft"]["quantization"])


def expand(path: str) -> str:
    """A folder with its ~ replaced; a hub id as it is."""
    folder = Path(path).expanduser()
    return str(folder) if folder.is_dir() else path
