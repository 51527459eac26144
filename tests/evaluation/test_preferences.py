import math

import pytest

from rlhf_exp.analysis.stats import wilson
from rlhf_exp.evaluation.preferences import (
    KINDS,
    compare_preferences,
    find_errors,
    summarise_preferences,
)
from rlhf_exp.runs.records import Pair


def make_row(margin, chosen_tokens=10, rejected_tokens=10, subset="a", rejected_reward=0.0, name="x", texts=("a", "b")):
    rewards = {"margin": margin, "chosen_reward": rejected_reward + margin, "rejected_reward": rejected_reward}
    tokens = {"chosen_tokens": chosen_tokens, "rejected_tokens": rejected_tokens}
    known = {"which": "trained", "id": name, "subset": subset, "prompt": "?"}
    return Pair(**known, **rewards, **tokens, chosen=texts[0], rejected=texts[1])


def test_accuracy_counts_a_tie_as_half_right():
    section = summarise_preferences([make_row(m) for m in (2.0, 1.0, 0.0, -1.0)])
    assert section["counts"] == {"correct": 2, "tied": 1, "wrong": 1}
    assert section["accuracy"]["value"] == 0.625
    # Wilson's formula at 2.5 of 4 by hand: z2 = 3.841459, middle (0.625 + z2/8) / (1 + z2/4) = 0.563768,
    # half sqrt(z2 (0.625 * 0.375 / 4 + z2/64)) / (1 + z2/4) = 0.344337; above, 1.5 are wrong, and Poisson's bound
    # holds: 1 - 0.351846 / 8, by the 5% quantile of chi-squared at 3 degrees of freedom
    assert section["accuracy"]["low"] == pytest.approx(0.219427, abs=1e-5)
    assert section["accuracy"]["high"] == pytest.approx(0.956019, abs=1e-5)
    tied = summarise_preferences([make_row(0.0)] * 20)
    assert tied["accuracy"] == pytest.approx(wilson(10, 20)) and tied["calibration_error"] == 0.0
    assert tied["loss"]["value"] == pytest.approx(math.log(2))


def test_loss_margin_and_reward_by_hand():
    rows = [make_row(1.0, rejected_reward=2.0), make_row(-3.0, rejected_reward=1.0)]
    section = summarise_preferences(rows)
    # log(1 + e^-1) = 0.313262, log(1 + e^3) = 3.048587
    assert section["loss"]["value"] == pytest.approx((0.313262 + 3.048587) / 2, abs=1e-6)
    assert section["margin"]["mean"]["value"] == -1.0
    assert section["margin"]["std"] == pytest.approx(math.sqrt(8))
    # rewards 3, 2, -2, 1: mean 1, squared deviations 4 + 1 + 9 + 0 over 3
    assert section["reward"]["mean"]["value"] == 1.0
    assert section["reward"]["std"] == pytest.approx(math.sqrt(14 / 3))


def test_a_huge_wrong_margin_does_not_overflow():
    assert summarise_preferences([make_row(-5000.0), make_row(5000.0)])["loss"]["value"] == 2500.0


def test_calibration_compares_the_models_probability_with_how_often_it_is_right():
    logit = {p: math.log(p / (1 - p)) for p in (0.55, 0.65, 0.95)}
    margins = [0.0, logit[0.55], -logit[0.65], logit[0.65], logit[0.65], -logit[0.95]]
    section = summarise_preferences([make_row(m) for m in margins])
    bins = [(b["low"], b["high"], b["n"], b["predicted"], b["observed"]["value"]) for b in section["calibration"]]
    expected = [(0.5, 0.6, 2, 0.525, 0.75), (0.6, 0.7, 3, 0.65, 2 / 3), (0.9, 1.0, 1, 0.95, 0.0)]
    assert [x for b in bins for x in b] == pytest.approx([x for b in expected for x in b])
    assert section["calibration_error"] == pytest.approx((2 * 0.225 + 3 * (2 / 3 - 0.65) + 0.95) / 6)


def test_accuracy_by_length_and_by_subset():
    rows = [make_row(1.0, 60, 10, "b"), make_row(1.0, 43, 10, "a"), make_row(-1.0, 42, 10, "a"),
            make_row(1.0, 10, 10, "a"), make_row(-1.0, 10, 43, "b")]  # fmt: skip
    section = summarise_preferences(rows)
    by_length, by_subset = (
        {b["label"]: (b["n"], b["accuracy"]["value"]) for b in section[name]} for name in ("by_length", "by_subset")
    )
    assert by_length == {
        "shorter by more than 32": (1, 0.0), "equal": (1, 1.0), "longer by 1 to 32": (1, 0.0),
        "longer by more than 32": (2, 1.0),
    }  # fmt: skip
    assert by_subset == {"a": (3, 2 / 3), "b": (2, 0.5)}
    assert section["longer_wins"]["value"] == 3.5 / 5


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_rewards_that_are_not_numbers_are_not_taken_for_right_or_wrong():
    section = summarise_preferences([make_row(math.nan), make_row(1.0)])
    assert section["counts"] == {"correct": 1, "tied": 0, "wrong": 0}
    assert math.isnan(section["accuracy"]["value"])


def test_the_difference_is_paired():
    baseline = [make_row(m) for m in (-1.0, -1.0, 1.0, 0.0)]
    trained = [make_row(m) for m in (1.0, 1.0, 1.0, -1.0)]
    paired = compare_preferences(baseline, trained)
    assert paired["n"] == 4
    assert paired["difference"]["value"] == pytest.approx(0.375)
    assert paired["margin"]["mean"]["value"] == pytest.approx(0.75)  # of the pairs: 2, 2, 0 and -1
    assert paired["loss"]["value"] == pytest.approx((-1 - 1 + 0 + math.log(1 + math.e) - math.log(2)) / 4)


def test_each_error_has_the_first_kind_that_fits():
    margins = [-0.1, 0.2, -1.0, -1.1, 1.2, 1.3, -1.4, -5.0, 6.0]
    lengths = [(10, 20), (1, 1), (10, 20), (10, 20), (1, 1), (1, 1), (10, 20), (20, 10), (1, 1)]
    rows = [make_row(m, *tokens, name=str(i)) for i, (m, tokens) in enumerate(zip(margins, lengths, strict=True))]
    rows.append(make_row(-1.25, 20, 10, name="9"))
    rows.append(make_row(0.0, name="10"))  # a tie is no error
    rows.append(make_row(-1.15, 20, 10, name="11", texts=("Take the bus.", "I\u2019m sorry, but no.")))
    rows.append(make_row(-1.16, 10, 20, name="12", texts=("Take the  bus.", "Take the bus. It is near.")))
    errors = find_errors(rows)
    # sizes sorted: 0, .1, .2, 1, 1.1, 1.15, 1.16, 1.2, 1.25, 1.3, 1.4, 5, 6: the quartiles lie at 1 and 1.3
    assert errors.thresholds == {"near_tie": pytest.approx(1.0), "confident": pytest.approx(1.3)}
    assert {row.id: row.kind for row in errors.shown} == {
        "7": "confident", "6": "confident", "9": "other", "3": "longer_wins", "2": "near_tie", "0": "near_tie",
        "11": "refusal_preferred", "12": "length_only",
    }  # fmt: skip
    assert [row.id for row in errors.shown] == ["7", "6", "9", "12", "11", "3", "2", "0"]
    assert errors.counts == dict(zip(KINDS, (2, 2, 1, 1, 1, 1), strict=True))


def test_accuracy_by_what_the_texts_show_and_quantiles_of_rewards_and_margins():
    refuses = ("I can't help with that.", "Take the bus.")
    rows = [make_row(m, texts=refuses, rejected_reward=1.0) for m in (1.0, -2.0)]
    rows += [make_row(-3.0, texts=refuses[::-1]), make_row(4.0, texts=("so  it", "so it is"))]
    section = summarise_preferences(rows)
    assert [(part["n"], part["accuracy"]["value"]) for part in section["by_trait"]] == [(2, 0.5), (1, 0.0), (1, 1.0)]
    median = section["quantiles"][2].model_dump()
    assert median == {"share": 0.5, "chosen": 0.5, "rejected": 0.5, "right": 2.5, "wrong": 2.5}
    assert "wrong" not in summarise_preferences(rows[:1])["quantiles"][0].model_fields_set
