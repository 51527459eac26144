"""LoRA adapters: their configuration, which model one belongs to, how it is put on that, and merging.

peft_config = build_peft_config(cfg)                                   # None for peft=none
merge("outputs/x/model", "merged")                                     # a model of full weights in safetensors
"""

import json
import warnings
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from peft import LoraConfig, PeftModel, get_peft_model_state_dict
from peft.utils import load_peft_weights
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer, PreTrainedModel

from rlhf_exp.algorithms import ALGORITHMS
from rlhf_exp.config.model_shape import find_start_model
from rlhf_exp.config.values import show

if TYPE_CHECKING:
    from rlhf_exp.config.schema import Config

CLASSES = {"CAUSAL_LM": AutoModelForCausalLM, "SEQ_CLS": AutoModelForSequenceClassification}
"""By the task type that an adapter records: what it is put on."""

MOST = 200  # characters of a library's error in one of our lines


class AdapterError(Exception):
    """An adapter cannot be used. One line, led by the adapter's folder."""


class WrongBase(AdapterError):
    """An adapter's base cannot be had, or is not the model that it was trained on; another may be named."""


def build_peft_config(cfg: "Config") -> LoraConfig | None:
    """The adapter that TRL puts on the model; a reward model's head is trained in full beside it."""
    if cfg.peft.lora is None:
        return None
    lora = cfg.peft.lora
    scores = ALGORITHMS[cfg.algo.name].scores
    return LoraConfig(
        r=lora.r,
        lora_alpha=lora.lora_alpha,
        lora_dropout=lora.lora_dropout,
        target_modules=lora.target_modules,
        task_type="SEQ_CLS" if scores else "CAUSAL_LM",
        modules_to_save=["score"] if scores else None,
    )


def is_adapter(path: str | Path) -> bool:
    """Whether a path is an adapter's folder, which holds the difference to a base, not a model."""
    return (Path(path) / "adapter_config.json").is_file()


def read_task_type(adapter: str | Path) -> str:
    """CAUSAL_LM for a language model's adapter, SEQ_CLS for a reward model's.

    Raises:
        AdapterError: it is of another kind, or says nothing.
    """
    found = _read_config(adapter).get("task_type")
    if found not in CLASSES:
        raise AdapterError(f"{adapter}: is an adapter of task type {show(found)}; must be {' or '.join(CLASSES)}")
    return found


def find_base(adapter: str | Path, base: str | None = None) -> str:
    """The folder or hub id of an adapter's base: `base` where given, else what the adapter records.

    Adapters of a run whose start model was made in its own folder look for it there, so that a run can be moved.

    Raises:
        WrongBase: it is an adapter too.
    """
    recorded = base or _read_config(adapter)["base_model_name_or_path"]
    if base is None and (start_model := find_start_model(Path(adapter), recorded)):
        return start_model
    if is_adapter(Path(recorded).expanduser()):
        raise WrongBase(f"{adapter}: is an adapter, and so is its base {recorded}; that must hold full weights")
    return str(Path(recorded).expanduser()) if Path(recorded).expanduser().is_dir() else recorded


def load_base(kind: Any, adapter: str | Path, base: str | None = None, **kwargs: Any) -> PreTrainedModel:
    """The base of an adapter, by `kind.from_pretrained(base, **kwargs)`.

    Raises:
        WrongBase: it cannot be loaded.
    """
    found = find_base(adapter, base)
    try:
        return kind.from_pretrained(found, **kwargs)
    except (OSError, ValueError, SafetensorError) as error:
        raise WrongBase(
            f"{adapter}: is an adapter for {found}, which cannot be loaded ({show(str(error), MOST)})"
        ) from None


def put_on(model: PreTrainedModel, adapter: str | Path) -> PeftModel:
    """The adapter on its base, not trained further.

    Raises:
        WrongBase: the adapter is for a model of other modules or sizes. (Other weights of the same shape cannot be
            told, nor more layers of it.)
    """
    at = model.name_or_path
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="fan_in_fan_out is set to False")  # GPT-2: peft corrects it
            warnings.filterwarnings("ignore", message="Found missing adapter keys")  # refused below
            warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")  # peft uses an old name
            # As in training: TRL leaves adapters in float32, but in the base's dtype where that is quantised.
            adapted = PeftModel.from_pretrained(
                model, str(adapter), autocast_adapter_dtype=not getattr(model, "is_quantized", False)
            )
    except (RuntimeError, ValueError) as error:
        raise WrongBase(f"{adapter}: is an adapter that does not fit {at} ({show(str(error), MOST)})") from None
    saved = load_peft_weights(str(adapter), device="cpu").keys()
    wanted = get_peft_model_state_dict(adapted, save_embedding_layers=False).keys()
    if saved != wanted:
        raise WrongBase(
            f"{adapter}: is an adapter that does not fit {at} (it lacks {len(wanted - saved)} of the"
            f" {len(wanted)} tensors there, and has {len(saved - wanted)} more)"
        )
    return adapted


def keep_dtype_on_resume(model: PeftModel) -> None:
    """Make a resumed run go on in the dtype that its adapters had.

    TRL trains adapters on a quantised base in bfloat16. A resuming Trainer calls `load_adapter`, which by default casts
    them to float32: the run would go on in another way than without the stop.
    """
    if getattr(model, "is_quantized", False):
        model.load_adapter = partial(model.load_adapter, autocast_adapter_dtype=False)


def merge(
    adapter: str | Path,
    out: str | Path,
    base: str | None = None,
    dtype: str = "float32",
    trust_remote_code: bool = False,
) -> None:
    """Write base plus adapter as one model of full weights, with its tokenizer.

    The base is loaded unquantised. An adapter trained on a 4-bit base learned beside weights rounded to 4 bits: merged
    onto the unrounded ones it is not the model that was trained, but differs from it by that rounding.

    Args:
        dtype: of the merged weights; "auto" takes the base's own. In bfloat16 the sum is rounded once more.

    Raises:
        AdapterError: it is no adapter that we know; as WrongBase, its base cannot be loaded, or does not fit.
    """
    task_type = read_task_type(adapter)
    scores = {"num_labels": 1} if task_type == "SEQ_CLS" else {}
    model = load_base(CLASSES[task_type], adapter, base, dtype=dtype, trust_remote_code=trust_remote_code, **scores)
    at = adapter if (Path(adapter) / "tokenizer_config.json").is_file() else find_base(adapter, base)
    try:
        tokenizer = AutoTokenizer.from_pretrained(at, trust_remote_code=trust_remote_code)
    except (OSError, ValueError) as error:
        raise AdapterError(f"{adapter}: its tokenizer cannot be loaded from {at} ({show(str(error), MOST)})") from None
    merged = put_on(model, adapter).merge_and_unload()
    if scores:  # it pools at the last token that is not padding
        merged.config.pad_token_id = tokenizer.pad_token_id
    merged.save_pretrained(out)
    tokenizer.save_pretrained(out)


def _read_config(adapter: str | Path) -> dict[str, Any]:
    try:
        return json.loads((Path(adapter) / "adapter_config.json").read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise AdapterError(f"{adapter}: its adapter_config.json cannot be read ({error})") from None
