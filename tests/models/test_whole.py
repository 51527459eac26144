"""Models that are loaded to measure are whole, whatever engine trains."""

from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled, set_hf_deepspeed_config

from rlhf_exp.models.scoring import loading_whole


class Zero3:
    """As transformers keeps DeepSpeed's config while there are arguments of a run with it."""

    def is_zero3(self):
        return True


def test_transformers_divides_no_model_that_is_loaded_whole():
    engine = Zero3()
    set_hf_deepspeed_config(engine)
    assert is_deepspeed_zero3_enabled()
    with loading_whole():
        assert not is_deepspeed_zero3_enabled()
    assert is_deepspeed_zero3_enabled()
    del engine
    assert not is_deepspeed_zero3_enabled()
