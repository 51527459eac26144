"""Models that are loaded to measure are whole, whatever engine trains."""

import torch

from rlhf_exp.models.whole import whole_weights


def test_a_model_of_one_process_is_whole_as_it_is():
    layer = torch.nn.Linear(2, 2)
    before = layer.weight.clone()
    with whole_weights(layer):
        assert torch.equal(layer.weight, before)
