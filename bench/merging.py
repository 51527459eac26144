"""How far weights move if an adapter is merged into them and taken out again, as TRL does for each rollout by vLLM.

    python bench/merging.py

The shipped model with LoRA in bfloat16 and in 4 bits; the adapter's second matrix is drawn with deviation 0.01. Prints
the mean over layers of |change| / |weights| (Frobenius norms).
"""

import tempfile
from pathlib import Path
from statistics import fmean

import torch
from bitsandbytes.functional import dequantize_4bit
from peft import get_peft_model
from transformers.utils import logging

from rlhf_exp.config.compose import compose_config
from rlhf_exp.models.adapters import build_peft_config
from rlhf_exp.models.loading import load_policy, resolve_model

ROUNDS = (1, 5, 20)


def read_weights(model: torch.nn.Module) -> list[torch.Tensor]:
    weights = [module.weight for name, module in model.named_modules() if name.endswith("base_layer")]
    return [
        (dequantize_4bit(weight.data, weight.quant_state) if hasattr(weight, "quant_state") else weight.data)
        .float()
        .clone()
        for weight in weights
    ]


@torch.no_grad()
def main() -> None:
    logging.set_verbosity_error()
    for peft, dtype in (("lora", "bfloat16"), ("qlora", "auto")):
        with tempfile.TemporaryDirectory() as folder:
            cfg = compose_config(["device=cpu", f"peft={peft}", f"model.dtype={dtype}", f"output_dir={folder}"])
            model = get_peft_model(load_policy(resolve_model(cfg, Path(folder))), build_peft_config(cfg))
        torch.manual_seed(0)
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0, 0.01)
        before = read_weights(model)
        for n in range(1, max(ROUNDS) + 1):
            model.merge_adapter()
            model.unmerge_adapter()
            if n in ROUNDS:
                moved = fmean(
                    float((now - then).norm() / then.norm())
                    for now, then in zip(read_weights(model), before, strict=True)
                )
                print(f"{peft} {n:3} times: {100 * moved:.2f}%", flush=True)


if __name__ == "__main__":
    main()
