"""What is refused of the rewards' keys."""

import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.errors import ConfigError


@pytest.mark.parametrize(
    ("typed", "key", "kind"),
    [
        ("reward=graduated task=gsm8k", "reward.weights.graduated", "conflict"),
        ("reward.overlong.cache=97", "reward.overlong.cache", "conflict"),
        ("reward=overlong max_tokens=100 algo.args.curriculum_budgets=[20,60] algo.args.curriculum_from_steps=[0,10]"
         " reward.overlong.cache=30", "reward.overlong.cache", "conflict"),
        ("reward.overlong.cache=0", "reward.overlong.cache", "range"),
        ("reward.repetition.max_penalty=1", "reward.repetition.max_penalty", "range"),
        ("reward.constant.value=much", "reward.constant.value", "type"),
        ("~reward.random", "reward.random", "missing"),
    ],
)  # fmt: skip
def test_a_mistake_is_refused_for_its_key(typed, key, kind):
    with pytest.raises(ConfigError) as caught:
        compose_config(typed.split())
    [problem] = caught.value.problems
    assert problem.startswith(key) and getattr(problem, "kind", kind) == kind
