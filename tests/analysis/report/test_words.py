import pytest

from rlhf_exp.analysis.report.page import Callout, Text
from rlhf_exp.analysis.report.pairwise import run_figures
from rlhf_exp.analysis.report.words import describe_in_words, explain_change


@pytest.fixture
def groups(make_groups):
    """A setting that gains and one that does not."""
    return make_groups(3, bnpo=0.5, grpo=0.0)


def describe(groups):
    return describe_in_words(groups, run_figures(groups))


def test_a_change_is_said_by_the_same_test_as_in_the_tables(groups):
    tests = run_figures(groups)
    [contrast] = [c for c in tests["failed answers"].starts if c.first == "bnpo"]
    assert contrast.significant
    assert explain_change(groups["bnpo"], "bnpo", tests).startswith("Of the start model's completions ")
    hidden = {"failed answers": tests["failed answers"]._replace(contrasts=[contrast._replace(adjusted=1.0)])}
    assert explain_change(groups["bnpo"], "bnpo", hidden).startswith(
        "No measurable change in failed answers (80% power for "
    )


def test_healthy_runs_are_said_to_be(groups):
    [callout] = [block for block in describe(groups) if isinstance(block, Callout)]
    assert (callout.kind, callout.text) == ("ok", "Of 6 runs: no check accuses any.")


def test_of_many_settings_only_the_first_and_the_last_are_explained(groups):
    many = {f"{label}{copy}": group for copy in range(5) for label, group in groups.items()}
    explained = [block.text for block in describe(many) if isinstance(block, Text) and block.folded]
    assert [text.split(".")[0] for text in explained] == ["bnpo0", "grpo4"]
