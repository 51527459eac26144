import pickle
from typing import Annotated, Literal

import pytest
from pydantic import Field, TypeAdapter

from rlhf_exp.config.keys import explain_key, known_keys, takes_text
from rlhf_exp.config.reading import check_overrides
from rlhf_exp.config.values import Share, find_problems, nearest
from rlhf_exp.errors import HIDDEN, ConfigError, Problem, assign, is_secret
from rlhf_exp.tasks.sources import read_lines


@pytest.mark.parametrize(
    ("value", "hint"),
    [(1, float), (None, int | None), (["a"], None | str | list[str]), ({"a": 1}, dict | str | None),
     (False, Literal["group", False]), (10**400, Annotated[int, Field(ge=1)])],
)  # fmt: skip
def test_a_value_that_fits_is_no_problem(value, hint):
    assert find_problems("x", value, hint) == []


INTEGER, NUMBER = "x=true: must be a valid integer", "x=1e-3: must be a valid number"


@pytest.mark.parametrize(
    ("value", "hint", "lines"),
    [
        (True, int, [INTEGER]), ("1e-3", float, [NUMBER]), (1, bool, ["x=1: must be a valid boolean"]),
        (1.0, int, ["x=1.0: must be a valid integer"]), (float("nan"), float, ["x=nan: must be a finite number"]),
        ("", str, ["x='': must be a string of at least 1 character"]),
        (None, int, ["x=null: must be a valid integer"]),
        ("None", int | None, ["x=None: must be a valid integer; did you mean null?"]),
        ("TRUE", bool, ["x=TRUE: must be a valid boolean; did you mean true?"]),
        ("yes", bool, ["x=yes: must be a valid boolean; did you mean true?"]),
        ("LINEAR", Literal["linear", "cosine"], ["x=LINEAR: must be 'linear' or 'cosine'; did you mean linear?"]),
        ("DrGrpo", Literal["grpo", "dr_grpo"], ["x=DrGrpo: must be 'grpo' or 'dr_grpo'; did you mean dr_grpo?"]),
        (3, str | list[str], ["x=3: must be a valid string or a valid list"]),
        ([3, 9], list[Annotated[int, Field(le=6)]], ["x=[3, 9]: must be a list, each less than or equal to 6"]),
        (0, Annotated[int, Field(ge=1)] | Literal[-1], ["x=0: must be greater than or equal to 1"]),
        ({"a": "x", "b": 1, "c": -1}, dict[str, Share], ["x.a=x: must be a valid number",
                                                         "x.c=-1: must be greater than or equal to 0"]),
    ],
)  # fmt: skip
def test_a_problem_names_key_value_what_is_allowed_and_the_nearest_name(value, hint, lines):
    assert find_problems("x", value, hint) == lines


def test_a_value_is_kept_as_it_was_typed():
    assert repr(TypeAdapter(dict[str, Share]).validate_python({"a": 1})) == "{'a': 1}"


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
    "override",
    [
        *("output_dir=/tmp/max_token=96", "task.path=/data/my_token:v1.jsonl", "task.path=/data/{a,my_token:b}"),
        *("+reward.functions.per_token=f.py:fn", "+reward.weights.per_token=0.5", "+reward.weights={per_token: 1}"),
    ],
)
def test_a_secret_is_sought_in_keys_and_neither_in_values_nor_in_names_of_rewards(override):
    assert check_overrides([override]) == []
    assert HIDDEN not in assign(*override.lstrip("+").split("=", 1))


def test_a_row_that_is_nested_too_deep_is_one_line(tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"prompt": ' + 10_000 * "[" + 10_000 * "]" + "}\n")
    with pytest.raises(ConfigError) as caught:
        list(read_lines(rows))
    [problem] = caught.value.problems
    assert problem.startswith(f"{rows}, line 1: not JSON (")


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
