import json
from hashlib import sha256

from rlhf_exp.tasks.hh_rlhf import parse_pair
from rlhf_exp.tasks.synthetic import generate_pairs

N = 4000
ROWS = list(generate_pairs(N, seed=0))
PAIRS = [parse_pair("", subset, None, chosen, rejected) for subset, chosen, rejected in ROWS]


def test_every_synthetic_pair_is_well_formed_with_a_prompt_of_its_own():
    assert [kinds for _, kinds in PAIRS] == [[]] * N
    assert len({pair.prompt for pair, _ in PAIRS}) == N
    assert [pair.subset for pair, _ in PAIRS[:2]] == ["helpful-base", "harmless-base"]
    assert {len(pair.history) for pair, _ in PAIRS} == {1, 3}


def test_the_rows_are_those_that_were_approved():
    assert list(generate_pairs(50, seed=0)) == ROWS[:50] != list(generate_pairs(50, seed=1))
    assert sha256(json.dumps(ROWS).encode()).hexdigest()[:16] == "908593134489513c"
