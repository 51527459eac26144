"""A mistake in a config file of one's own is one line with the file, and the place in it where that is known."""

from pathlib import Path

import pytest

from rlhf_exp.config import keys

HEAD = "# @package _global_\n"
PLACED = {
    "algo:\n\targs:\n    beta: 0.1\n": "3, column 1: found character '\\t' that cannot start any token",
    "eval:\n  rows: 4\n   every: 3\n": "4, column 9: mapping values are not allowed here",
    "run:\n  tags: [a, b\nseed: 1\n": "4, column 5: expected ',' or ']', but got ':', while parsing a flow sequence"
    " that begins in line 3",
    'run:\n  name: "abc\nseed: 1\n': "5, column 1: found unexpected end of stream, while scanning a quoted scalar that"
    " begins in line 3",
    "seed: 1\nseed: 2\n": "3, column 1: found duplicate key seed, while constructing a mapping that begins in line 2",
    "seed:1\nmax_tokens: 4\n": "3, column 11: mapping values are not allowed here",
    "run:\n  name: *abc\n": "3, column 9: found undefined alias 'abc'",
    "run:\n  name: @abc\n": "3, column 9: found character '@' that cannot start any token",
    "run:\n  name: !!python/object:os.system x\n": "3, column 9: could not determine a constructor for the tag"
    " 'tag:yaml.org,2002:python/object:os.system'",
    "? [a]\n: 2\n": "2, column 3: found unhashable key",
    "seed: 1\n---\nseed: 2\n": "3, column 1: but found another document, expected a single document in the stream that"
    " begins in line 2",
}
FIRST = "an experiment; its first line must be # @package _global_ (no letter or mark before it)"
WHOLE = {
    f"{HEAD}run:\n  name: \x1b[31m\n": "holds a control character (the 34th)",
    f"{HEAD}run:\n  name: caf\xe9\n": "not UTF-8 (byte 0xe9); save it as UTF-8",
    f"{HEAD}- seed: 1\n": "holds a list; must hold keys with their values, such as seed: 1",
    f"{HEAD}1: 2\n": "the key 1 is no text; put quotes around it",
    f"{HEAD}seed: ${{nope\n": "no viable alternative at input '${nope'",
    "": FIRST,
    "seed: 1\n": FIRST,
    "# @package _globl_\nseed: 1\n": FIRST,
    "# @package algo args\nseed: 1\n": "Too many components in '@package algo args'",
}


@pytest.fixture
def refuse(command_line, tmp_path):
    """The lines of `experiment=mine`, with this content of mine.yaml."""

    def call(content, *arguments):
        (tmp_path / "own" / "experiment").mkdir(parents=True, exist_ok=True)
        (tmp_path / "own" / "experiment" / "mine.yaml").write_text(content, encoding="latin-1")
        done = command_line("-cd", "own", *(arguments or ("experiment=mine",)), "dry_run=true", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        return done.stderr.removeprefix("rlhf_exp: ").removesuffix("\n")

    return call


@pytest.mark.parametrize("content", PLACED)
def test_a_mistake_in_yaml_is_one_line_with_its_place(content, refuse):
    assert refuse(HEAD + content) == f"own/experiment/mine.yaml, line {PLACED[content]}"


@pytest.mark.parametrize("content", WHOLE)
def test_a_file_that_is_no_config_is_one_line(content, refuse):
    assert refuse(content) == f"own/experiment/mine.yaml: {WHOLE[content]}"


@pytest.mark.parametrize(
    ("defaults", "line"),
    [
        ("- nothere", "In 'experiment/mine': Could not load 'experiment/nothere'."),
        ("- override /algo dpo", "In 'experiment/mine': Could not load 'experiment/override /algo dpo'."),
        ("- override /alog: dpo", "In 'experiment/mine': Could not override 'alog'. No match in the defaults list."),
        ("- mine", "a config names itself in its defaults list, directly or by way of others"),
    ],
)
def test_a_wrong_defaults_list_is_one_line(defaults, line, refuse):
    assert refuse(f"{HEAD}defaults:\n  {defaults}\n") == line


def test_a_group_of_ones_own_and_a_study_say_where_they_are_wrong(refuse, tmp_path):
    for folder in ("own", "own/task"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "wrong.yaml").write_text("name: [file\n")
    place = "line 2, column 1: expected ',' or ']', but got '<stream end>'"
    assert refuse(HEAD, "task=wrong").startswith(f"own/task/wrong.yaml, {place}")
    assert refuse(HEAD, "-cn", "wrong").startswith(f"own/wrong.yaml, {place}")
    jobs = refuse("a: [", "-m", "experiment=compare_dpo,mine")
    assert jobs.startswith("own/experiment/mine.yaml, line 1, column 5: ")


def test_a_study_without_the_defaults_of_a_run_is_one_line(refuse, tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "study.yaml").write_text("seed: 1\n")
    line = "the config that -cn names lacks it; its defaults list must begin with /config"
    assert refuse(HEAD, "-cn", "study") == f"dry_run=true: {line}"


@pytest.mark.parametrize("text", ["a: [", "", "- 1\n", "caf\xe9"])
def test_a_wrong_file_in_conf_does_not_hide_what_else_is_wrong(text, tmp_path, monkeypatch):
    (tmp_path / "conf" / "model").mkdir(parents=True)
    Path(tmp_path, "conf", "model", "mine.yaml").write_text(text, encoding="latin-1")
    monkeypatch.setattr(keys, "ROOT", tmp_path)
    assert keys._list_option.__wrapped__("model", "mine") == ()
