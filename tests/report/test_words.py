import math
import re

import pytest

from rlhf_exp.report.page import Callout, Text
from rlhf_exp.report.pairwise import run_figures
from rlhf_exp.report.words import RAREST, describe_in_words, explain_change, find_words


@pytest.fixture
def groups(make_groups):
    """A setting that gains and one that does not."""
    return make_groups(3, bnpo=0.5, grpo=0.0)


def describe(groups):
    return describe_in_words(groups, run_figures(groups))


def test_z_is_that_of_monroe_and_others_by_hand():
    """40 of 50 completions against 10 of 50: a prior of 10 completions, half of which have the word."""
    before = ["give up"] * 40 + ["go on"] * 10
    after = ["give up"] * 10 + ["go on"] * 40
    changed, vocabulary, bound = find_words(before, [after])
    assert vocabulary == 4 and bound == pytest.approx(2.4977, abs=1e-4)
    a, b = 40 + 5 + 0.5, 10 + 5 + 0.5
    z = 2 * math.log(b / a) / math.sqrt(2 / a + 2 / b)
    assert [(text, old, new) for text, old, new, _ in changed[2:]] == [("give", 0.8, 0.2), ("up", 0.8, 0.2)]
    assert changed[-1][3] == pytest.approx(z)


def test_a_word_counts_once_per_completion_and_numbers_are_left_out():
    assert find_words(["no 12"] * 50, [["no no no no 13"] * 50]) == ([], 1, pytest.approx(1.96, abs=1e-3))
    assert find_words(["no"] * (RAREST - 1), [["13"]])[1] == 0


def test_a_word_that_rises_in_one_seed_and_falls_in_another_has_not_changed():
    before = ["yes"] * 50 + ["no"] * 50
    risen, fallen = ["yes"] * 100, ["yes"] * 45 + ["no"] * 55
    assert [word[0] for word in find_words(before, [risen, risen])[0]] == ["yes", "no"]
    assert find_words(before, [risen, fallen])[0] == []


def test_a_change_is_said_by_the_same_test_as_in_the_tables(groups):
    tests = run_figures(groups)
    [contrast] = [c for c in tests["failed answers"].starts if c.first == "bnpo"]
    assert contrast.significant
    assert explain_change(groups["bnpo"], "bnpo", tests).startswith("Of the start model's completions ")
    hidden = {"failed answers": tests["failed answers"]._replace(contrasts=[contrast._replace(adjusted=1.0)])}
    assert explain_change(groups["bnpo"], "bnpo", hidden).startswith(
        "No measurable change in failed answers (80% power for "
    )


def test_words_that_changed_are_listed_by_the_way_they_went(groups):
    for run in groups["bnpo"]:
        for sample in run.samples:
            sample["completion"] = "give up" if sample["which"] == "baseline" else "go up"
    words = r'more often "go" 0 to 100% \(z \+[0-9.]+\); less often "give" 100 to 0% \(z -[0-9.]+\)\.$'
    assert re.search(words, explain_change(groups["bnpo"]))


def test_healthy_runs_are_said_to_be(groups):
    [callout] = [block for block in describe(groups) if isinstance(block, Callout)]
    assert (callout.kind, callout.text) == ("ok", "Of 6 runs: no check accuses any.")


def test_of_many_settings_only_the_first_and_the_last_are_explained(groups):
    many = {f"{label}{copy}": group for copy in range(5) for label, group in groups.items()}
    explained = [block.text for block in describe(many) if isinstance(block, Text)]
    assert [text.split(".")[0] for text in explained if "No word" in text] == ["bnpo0", "grpo4"]
