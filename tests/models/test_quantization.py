"""4-bit training on every processor: bitsandbytes is told that this one has AVX512-BF16, and packs nothing."""

import bitsandbytes
import pytest
import torch

from tests.building import build
from tests.models.tiny import IDS, SMALL


@pytest.fixture(autouse=True)
def wide_processor(monkeypatch):
    monkeypatch.setattr(bitsandbytes.nn.modules, "has_avx512bf16", lambda: True)


def list_gradients(model):
    """The gradient of every trained parameter, of a loss that depends on all layers; adapters get large weights."""
    generator = torch.Generator().manual_seed(3)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            parameter.data = 0.2 * torch.randn(parameter.shape, generator=generator).to(parameter)
    torch.manual_seed(0)  # dropout
    model.train()
    model.zero_grad()
    model(input_ids=IDS).logits.float().log_softmax(-1)[..., 7].sum().backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def test_bitsandbytes_still_decides_by_that_attribute():
    assert vars(bitsandbytes.nn.Linear4bit(2, 2))["support_avx512bf16_for_cpu"] is True


@pytest.mark.parametrize(("architecture", "algo"), [("gpt2", "ppo"), ("qwen2", "grpo"), ("qwen3", "sft")])
def test_gradients_of_a_trainers_model_are_the_same_after_a_pass_in_evaluation_mode(architecture, algo, tmp_path):
    args = [] if algo == "sft" else ["algo.args.per_device_train_batch_size=4"]
    args += ["algo.args.num_generations=2"] if algo == "grpo" else []
    named = [f"model=tiny_{architecture}", *SMALL, "peft=qlora", f"algo={algo}", "reward=outcome", *args]
    model = build(tmp_path, *named, rows=[{"prompt": "ab", "completion": " cd"}] * 8, reward=len).model
    layers = [module for module in model.modules() if isinstance(module, bitsandbytes.nn.Linear4bit)]
    assert layers and not any(layer.weight.quant_state is None for layer in layers)
    before = list_gradients(model)
    assert len(before) > 4 and any(gradient.any() for gradient in before.values())
    model.eval()
    with torch.no_grad():
        model(input_ids=IDS)
    after = list_gradients(model)
    assert before.keys() == after.keys()
    for name, gradient in before.items():
        torch.testing.assert_close(after[name], gradient, rtol=1e-3, atol=1e-6, msg=name)
