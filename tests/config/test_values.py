import pickle
from typing import Any, Literal

import pytest

from rlhf_exp.config.keys import explain_key, known_keys, takes_text
from rlhf_exp.config.values import find_problems, fits, in_range, nearest
from rlhf_exp.errors import Problem, is_secret


@pytest.mark.parametrize(
    ("value", "annotation", "fit"),
    [
        (1, int, True), (1, float, True), (None, int | None, True), (["a"], None | str | list[str], True),
        ({"a": 1}, dict[str, Any] | str | None, True), (False, Literal["group", False], True),
        ([-1.0, 2], tuple[float, float], True), ([1.0], tuple[float, float], False), (True, int, False),
        (1, bool, False), (1.0, int, False), ("1e-3", float, False), (float("nan"), float, False), ("", str, False),
        (None, int, False), ([1], list[str], False), ({"a": "x"}, dict[str, float], False),
        (0, Literal["group", False], False), ("None", int | None, False),
    ],
)  # fmt: skip
def test_a_value_fits_its_type_or_not(value, annotation, fit):
    assert fits(value, annotation) is fit


@pytest.mark.parametrize(
    ("number", "bounds", "inside"),
    [(1, ">= 1", True), (0, ">= 1", False), (1.0, "> 0, <= 1", True), (0, "> 0, <= 1", False),
     (-1, ">= 1 or -1", True), (0, ">= 1 or -1", False), (float("inf"), "> 0", False), (10**400, ">= 1", True)],
)  # fmt: skip
def test_a_range_means_what_it_says(number, bounds, inside):
    assert in_range(number, bounds) is inside


def test_a_problem_names_key_value_what_is_allowed_and_the_nearest_name():
    assert find_problems("seed", 1, int, ">= 0") == []
    [problem] = find_problems("seed", True, int, ">= 0")
    assert (problem.key, problem.kind, problem.value, problem.hint) == ("seed", "type", True, "a whole number >= 0")
    assert problem == "seed=true: must be a whole number >= 0"
    [problem] = find_problems("sizes", [3, 9], list[int], "<= 6")
    assert (problem.kind, problem) == ("range", "sizes=[3, 9]: must be a list, each a whole number <= 6")
    line = "schedule=linaer: must be one of linear, cosine; did you mean linear?"
    assert find_problems("schedule", "linaer", Literal["linear", "cosine"]) == [line]
    wrong = ["w.a=x: must be a number >= 0", "w.c=-1: must be a number >= 0"]
    assert find_problems("w", {"a": "x", "b": 1, "c": -1}, dict[str, float], ">= 0") == wrong


@pytest.mark.parametrize(
    ("problem", "line"),
    [
        (Problem("max_token", "unknown", 1, "no such key"), "max_token=1: no such key"),
        (Problem("seed", "missing", hint="missing; it has no default"), "seed: missing; it has no default"),
        (Problem("eval.rows", "idle", 3, " without x"), "eval.rows=3: has no effect without x"),
        (Problem("algo.args.seed", "owned", 3, ", to 0; use seed"), "algo.args.seed=3: is set by another key, to 0;"
         " use seed"),
    ],
)  # fmt: skip
def test_a_problem_is_its_line_in_every_process(problem, line):
    copied = pickle.loads(pickle.dumps(problem))
    assert copied == problem == line and vars(copied) == vars(problem)


def test_nearest_compares_the_last_part_of_a_dotted_name():
    names = ["seed", "algo.args.learning_rate", "algo.args.beta", "model.learning_rate"]
    assert nearest("leraning_rate", names) == "algo.args.learning_rate"
    assert nearest("model.beta", names) == "algo.args.beta"
    assert nearest("zzz", names) is None
    assert nearest("modl.path", ["task.path", "model.path"]) == "model.path"


@pytest.mark.parametrize(
    ("value", "annotation", "near"),
    [
        ("LINEAR", Literal["linear", "cosine"], "linear"), ("DrGrpo", Literal["grpo", "dr_grpo"], "dr_grpo"),
        ("TRUE", bool, "true"), ("Flase", bool, "false"), ("yes", bool, "true"),
        ("None", int | None, "null"), ("NONE", Literal["none", "group"] | None, "none"),
    ],
)  # fmt: skip
def test_the_nearest_value_is_found_whatever_its_case(value, annotation, near):
    assert find_problems("key", value, annotation)[0].endswith(f"; did you mean {near}?")


def test_a_slip_of_a_number_of_tokens_is_no_secret():
    assert not any(map(is_secret, ("train_token", "max_token", "TRAIN_TOKEN", "max_new_token")))
    assert all(map(is_secret, ("token", "hub_token", "algo.args.hub_token", "access_token", "trainer_token")))


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
