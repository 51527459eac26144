"""Models that are loaded to measure are whole, whatever engine trains."""

import torch
from transformers.integrations import deepspeed

from rlhf_exp.models.whole import loaded_whole, whole_weights


class Engine:
    def is_zero3(self):
        return True


def test_a_model_that_measures_is_not_divided_by_zero_3():
    engine = Engine()
    deepspeed.set_hf_deepspeed_config(engine)
    try:
        assert deepspeed._hf_deepspeed_config_weak_ref() is engine
        with loaded_whole():
            assert deepspeed._hf_deepspeed_config_weak_ref is None and not deepspeed.is_deepspeed_zero3_enabled()
        assert deepspeed._hf_deepspeed_config_weak_ref() is engine
    finally:
        deepspeed.unset_hf_deepspeed_config()


def test_a_model_of_one_process_is_whole_as_it_is():
    layer = torch.nn.Linear(2, 2)
    before = layer.weight.clone()
    with whole_weights(layer):
        assert torch.equal(layer.weight, before)
