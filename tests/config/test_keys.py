import pytest

from rlhf_exp.config.keys import explain_key, known_keys, takes_text


@pytest.mark.parametrize("algo", ["grpo", "sft"])
def test_every_key_is_named_for_its_upper_case(algo):
    for key in known_keys(algo):
        place, dot, end = key.rpartition(".")
        for typed in (key.upper(), f"{place}{dot}{end.upper()}", f"{place}{dot}{end.capitalize()}"):
            if typed != key:
                assert explain_key(typed, algo) == f"no such key; did you mean {key}?"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("modle", "model"), ("num_generations", "algo.args.num_generations"), ("lr", "algo.args.learning_rate")],
)
def test_an_unknown_key_has_the_nearest_key_or_the_fields_word_for_it(typed, meant):
    assert explain_key(typed) == f"no such key; did you mean {meant}?"


def test_a_key_that_takes_text_is_known_by_the_schema():
    texts = ("task.prompt_template", "task.of.path", "model.path", "run.name", "output_dir")
    others = ("seed", "algo", "run.tags", "reward.weights", "eval.split", "algo.args.beta", "nope", "nope.x")
    assert all(map(takes_text, texts)) and not any(map(takes_text, others))
