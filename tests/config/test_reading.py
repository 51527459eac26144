"""A mistake in a config file of one's own is one line with the file, and the place in it where that is known."""

import pytest

HEAD = "# @package _global_\n"


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


PLACED = {
    "algo:\n\targs:\n    beta: 0.1\n": "3, column 1: found character '\\t' that cannot start any token",
    "run:\n  tags: [a, b\nseed: 1\n": "4, column 5: expected ',' or ']', but got ':'",
    "seed: 1\nseed: 2\n": "3, column 1: found duplicate key seed", "? [a]\n: 2\n": "2, column 3: found unhashable key",
    "seed:1\nmax_tokens: 4\n": "3, column 11: mapping values", "run:\n  name: *abc\n": "3, column 9: found undefined",
    "run:\n  name: !!python/object:os.system x\n": "3, column 9: could not determine a constructor",
    "seed: 1\n---\nseed: 2\n": "3, column 1: but found another document",
}  # fmt: skip
WHOLE = {
    f"{HEAD}run:\n  name: \x1b[31m\n": "unacceptable character #x001b",
    f"{HEAD}run:\n  name: caf\xe9\n": "'utf-8' codec can't decode byte 0xe9",
    "": "an experiment; its first line must be",
    f"{HEAD}x: {'[' * 30_000}\n": "maximum recursion depth", f"{HEAD}x:\n {'- ' * 30_000}\n": "maximum recursion depth",
    f"{HEAD}seed: ${{nope\n": "no viable alternative",
}  # fmt: skip
DEFAULTS = {
    "nothere": "In 'experiment/mine': Could not load 'experiment/nothere'", "mine": "a config names itself in its",
    "override /alog: dpo": "In 'experiment/mine': Could not override 'alog'",
}  # fmt: skip


@pytest.mark.parametrize(
    ("content", "line"),
    [*((HEAD + content, f"own/experiment/mine.yaml, line {line}") for content, line in PLACED.items()),
     *((content, f"own/experiment/mine.yaml: {line}") for content, line in WHOLE.items()),
     ("# @package algo args\n", "own: Too many components"), (f"{HEAD}1: 2\n", "1=2: no such key"),
     (f"{HEAD}- seed: 1\n", "In 'experiment/mine': Cannot merge DictConfig with ListConfig"),
     *((f"{HEAD}defaults:\n  - {name}\n", line) for name, line in DEFAULTS.items())],
)  # fmt: skip
def test_a_mistake_in_a_file_is_one_line_with_its_place(content, line, refuse):
    said = refuse(content)
    assert said.startswith(line) and "\n" not in said


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


@pytest.mark.parametrize("value", ["[" * 30_000, "{a:" * 30_000 + "1" + "}" * 30_000, "choice(" * 51])
def test_an_override_that_is_nested_too_deeply_is_refused_before_it_is_read(refuse, value):
    assert refuse(HEAD, f"task.options={value}").endswith("...: more than 50 brackets are open at once")
