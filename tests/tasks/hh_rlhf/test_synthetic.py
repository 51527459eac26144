from rlhf_exp.tasks.hh_rlhf import RawPair, parse_pair
from rlhf_exp.tasks.hh_rlhf_synthetic import PARTS, generate_pairs

N = 4000
ROWS = list(generate_pairs(N, seed=0))
PAIRS = [parse_pair(RawPair("", subset, None, chosen, rejected)) for subset, chosen, rejected in ROWS]


def test_a_longer_list_begins_with_the_shorter_and_another_seed_gives_another():
    assert list(generate_pairs(50, seed=0)) == ROWS[:50]
    assert list(generate_pairs(50, seed=1)) != ROWS[:50]


def test_every_synthetic_pair_is_well_formed_with_a_prompt_of_its_own():
    assert [kinds for _, kinds in PAIRS] == [[]] * N
    assert len({pair.prompt for pair, _ in PAIRS}) == N
    assert [pair.subset for pair, _ in PAIRS[:2]] == ["helpful-base", "harmless-base"]
    assert {len(pair.history) for pair, _ in PAIRS} == {1, 3}


def test_texts_are_short_enough_for_a_model_that_reads_bytes():
    longest = [max(len(chosen), len(rejected)) for _, chosen, rejected in ROWS]
    assert max(longest) <= 300
    assert sum(length < 200 for length in longest) > N / 2


def test_length_says_little_about_what_is_chosen():
    for subset in ("helpful-base", "harmless-base"):
        pairs = [pair for pair, _ in PAIRS if pair.subset == subset]
        assert 0.5 < sum(len(pair.chosen) > len(pair.rejected) for pair in pairs) / len(pairs) < 0.62


def test_labels_are_exchanged_in_few_pairs():
    bad = {text for kind in ("curt", "rude", "evasive", "goes_along", "cold") for text in PARTS[kind]}
    told = [pair for pair, _ in PAIRS if pair.chosen in bad or pair.rejected in bad]
    assert len(told) > N / 2
    assert 0.05 < sum(pair.chosen in bad for pair in told) / len(told) < 0.08
