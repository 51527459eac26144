"""Untrained models of each architecture as configs name them, what they say of IDS, and how they are refused."""

import torch

from rlhf_exp.config.compose import compose_config
from tests.building import QUIET, build
from tests.tasks.building import refuse as refusal  # noqa: F401

ARCHITECTURES = ("gpt2", "qwen2", "qwen3")
CONTEXT = 64
SMALL = [
    *QUIET, "model.init.hidden_size=64", "model.init.intermediate_size=64",
    f"model.init.max_position_embeddings={CONTEXT}",
]  # fmt: skip
IDS = torch.tensor([[5, 9, 200, 31, 77, 8], [6, 60, 61, 62, 3, 3]])
ROWS = [{"prompt": "ab", "completion": f" c{i}", "chosen": f" yes {i}", "rejected": f" no{i}"} for i in range(4)]


def compose(architecture, *overrides):
    return compose_config([f"model=tiny_{architecture}", *SMALL, *overrides])


def make_trainer(folder, architecture, *overrides):
    """That of a run in `folder`, whose start model is as in `compose`."""
    return build(folder, f"model=tiny_{architecture}", *SMALL, *overrides, rows=ROWS)


def of_folder(folder, *overrides):
    return compose_config(["model=gpt2", f"model.path={folder}", "model.parameters=1e6", "device=cpu", *overrides])


@torch.no_grad()
def logits(model):
    return model(input_ids=IDS).logits.float()
