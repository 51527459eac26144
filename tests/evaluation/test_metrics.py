import statistics
from itertools import combinations
from random import Random

import pytest

from rlhf_exp.analysis.stats import DIFFERENCES, mean_interval, paired_interval, share_interval, wilson
from rlhf_exp.evaluation.metrics import compare, distinct_n, summarise
from rlhf_exp.runs.records import Completion

SCORES = {"correct": 1.0, "partial": 0.1, "failed": 0.0}


def make(rows, decoding="sampled", **extra):
    """Completions of one row after another, each row a list of (outcome, extracted); tokens differ between
    completions, and the end token is 1."""
    made = []
    for r, row in enumerate(rows):
        for place, (outcome, extracted) in enumerate(row):
            body = [100 * r + place + 5] + [7] * (1 + r + place)
            ids = [*body, 7] if outcome == "failed" else [*body, 1]
            kept = {"outcome": outcome, "extracted": extracted, "reward": SCORES[outcome], "kl": 0.5 * place} | extra
            cut = outcome == "failed"
            made.append(Completion(row=r, sample=place, decoding=decoding, ids=ids, truncated=cut, **kept))
    return made


def draw(rng, rows, k):
    """Rows of k outcomes; an answer is spelled after its outcome, in one of two ways."""
    drawn = [rng.choices(list(SCORES), k=k) for _ in range(rows)]
    return [[(o, None if o == "failed" else f"{o} {rng.randint(0, 1)}") for o in row] for row in drawn]


C, P, F = ("correct", "a"), ("partial", "b"), ("failed", None)


def test_one_completion_a_row_is_counted_by_wilson_and_several_by_their_rows():
    one = summarise(make([[C], [P], [P], [F]]), 12)
    assert one["accuracy"] == one["truncation_rate"] == wilson(1, 4) and one["utilisation"] == 4.5 / 12
    rewards = [1.0, 0.1, 0.1, 0.0]
    assert one["reward"] == {"mean": mean_interval(rewards), "std": pytest.approx(statistics.stdev(rewards))}
    assert not {"pass_at_k", "majority_at_k", "greedy", "lenient_accuracy"} & set(one)
    section = summarise(make([[C, C, P, F], [F, F, F, F], [C, P, P, P]]), 12)
    assert (section["n"], section["completions"]) == (3, 4)
    assert section["counts"] == {"correct": 3, "partial": 4, "failed": 5}
    assert section["accuracy"]["value"] == pytest.approx(3 / 12)
    assert section["accuracy"] == share_interval([0.5, 0.0, 0.25], completions=4)
    assert section["mean_tokens"] == mean_interval([4.5, 5.5, 6.5])
    assert section["kl"]["std"] == pytest.approx(statistics.stdev([0.0, 0.5, 1.0, 1.5] * 3))


def test_pass_at_k_is_the_mean_over_every_choice_of_k_completions():
    rows = draw(Random(1), 30, 6)
    samples = make(rows)
    found = summarise(samples, 12)["pass_at_k"]
    assert list(found) == ["1", "2", "4", "6"]
    for k, interval in found.items():
        slow = [
            statistics.fmean(any(o == "correct" for o, _ in chosen) for chosen in combinations(row, int(k)))
            for row in rows
        ]
        assert interval["value"] == pytest.approx(statistics.fmean(slow))
    assert found["1"] == summarise(samples, 12)["accuracy"]
    solved = sum(any(o == "correct" for o, _ in row) for row in rows)
    assert found["6"] == wilson(solved, 30)


@pytest.mark.parametrize(
    ("row", "correct"),
    [
        ([C, C, P, P], True),  # equally many: the first to appear
        ([P, C, C, P], False),
        ([F, F, F, C], True),  # no answer is no vote
        ([F, F, F, F], False),
        ([P, ("partial", "d"), ("partial", "e"), C], False),
        ([("partial", "a"), C, P, F], True),  # one spelling, taken as correct where it is marked (gsm8k)
    ],
)
def test_the_majority_is_right_or_wrong(row, correct):
    assert summarise(make([row]), 12)["majority_at_k"]["value"] == float(correct)


def test_more_completions_than_k_sharpen_what_is_estimated_for_k():
    rows = draw(Random(3), 40, 6)
    samples = make(rows)
    section = summarise(samples, 12, 2)
    assert (section["completions"], list(section["pass_at_k"])) == (6, ["1", "2"])
    assert section["pass_at_k"] == {k: summarise(samples, 12)["pass_at_k"][k] for k in ("1", "2")}
    pairs = make([row[i : i + 2] for row in rows for i in (0, 2, 4)])
    of_pairs = summarise(pairs, 12)["majority_at_k"]
    assert section["majority_at_k"]["value"] == pytest.approx(of_pairs["value"])
    first = [one for one in samples if one.sample < 2]
    assert section["distinct"] == summarise(first, 12)["distinct"]
    assert not {"pass_at_k", "majority_at_k"} & set(summarise(samples, 12, 1))


def test_greedy_has_a_section_of_its_own_and_no_part_in_the_sampled_figures():
    sampled, greedy = make([[C, F], [P, F]]), make([[C], [C]], "greedy")
    alone, both = summarise(sampled, 12), summarise(sampled + greedy, 12)
    assert {key: value for key, value in both.items() if key != "greedy"} == alone
    assert both["greedy"] == {
        "accuracy": wilson(2, 2),
        "counts": {"correct": 2, "partial": 0, "failed": 0},
        "mean_tokens": mean_interval([3, 4]),
        "truncation_rate": wilson(0, 2),
        "reward": {"mean": mean_interval([1.0, 1.0]), "std": 0.0},
    }


def test_every_difference_stands_where_the_figure_does_and_is_of_rows():
    """Two rows of two completions each, by hand."""
    baseline = make([[F, F], [C, P]]) + make([[F], [F]], "greedy")
    trained = make([[C, F], [C, C]], kl=2.0, kl_sampled=1.0, kl_outside=0.5) + make([[C], [F]], "greedy")
    baseline, trained = (
        [one.model_copy(update={"lenient": lenient}) if one.decoding == "sampled" else one for one in side]
        for side, lenient in ((baseline, False), (trained, True))
    )
    # The first row's completions.
    trained[:2] = [one.model_copy(update={"ids": [3] * 4 + one.ids}) for one in trained[:2]]
    assert summarise(trained, 16)["lenient_accuracy"]["value"] == 1.0
    paired = compare(baseline, trained, max_tokens=16)
    assert paired["mean_tokens"] == paired_interval([3.5, 4.5], [7.5, 4.5]) and paired["mean_tokens"]["value"] == 2
    assert paired["utilisation"] == {end: tokens / 16 for end, tokens in paired["mean_tokens"].items()}
    assert paired["truncation_rate"] == paired_interval([1, 0], [0.5, 0], DIFFERENCES)
    assert paired["difference"] == paired_interval([0, 0.5], [0.5, 1], DIFFERENCES)
    assert paired["lenient_accuracy"] == paired_interval([0, 0], [1, 1], DIFFERENCES)
    assert paired["reward"] == {"mean": pytest.approx(paired_interval([0, 0.55], [0.5, 1]))}
    assert paired["kl"]["mean"]["value"] == 1.75 and "kl_sampled" not in paired  # the baseline's is 0, or not held
    assert paired["changes"]["failed"] == {"correct": 1, "partial": 0, "failed": 0}
    assert paired["changes"]["correct"] == {"correct": 1, "partial": 0, "failed": 0}
    assert paired["greedy"]["accuracy"] == paired_interval([0, 0], [1, 0], DIFFERENCES)
    assert set(paired["greedy"]) == {"accuracy", "truncation_rate", "mean_tokens", "reward"}


def test_distinct_n_counts_by_hand_and_without_the_end():
    # unigrams 1 2 1 2 3 and 1: 3 of 6; bigrams 12 21 12 23: 3 of 4; the second text has none, and none spans two texts
    texts = [[1, 2, 1, 2, 3], [1]]
    assert distinct_n(texts, 1) == 3 / 6
    assert distinct_n(texts, 2) == 3 / 4
    assert distinct_n([[1], []], 2) == 0.0
    # without the end, 5 7 <eos> and 6 7 (cut off): tokens 5 7 6 7, bigrams 57 67
    samples = [Completion(row=0, ids=[5, 7, 1]), Completion(row=1, ids=[6, 7], truncated=True)]
    assert summarise(samples, 12)["distinct"] == {"1": 3 / 4, "2": 1.0}
