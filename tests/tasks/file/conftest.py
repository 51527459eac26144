import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.tasks import load_task


@pytest.fixture
def load(small_tokenizer):
    """Load the rows of a path (None: where the overrides say) for a small model, with another chat template or none."""

    def load(path, *overrides, chat_template=None):
        small = ["task=file", "model=tiny_qwen3", "max_tokens=8", "device=cpu", "eval.rows=null"]
        cfg = compose_config([*small, *([f"task.path={path}"] if path else []), *overrides])
        return load_task(cfg, small_tokenizer(chat_template))

    return load
