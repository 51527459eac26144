from rlhf_exp.report.pairwise import START, Pair, tell_apart


def pair(first, second, adjusted):
    return Pair(first, second, {"value": 0.1, "low": None, "high": None}, adjusted, adjusted)


def test_a_pair_that_was_not_tested_is_not_called_alike():
    pairs = [pair("ppo", START, 0.01), pair("dpo", START, 0.2), pair("sft", START, None), pair("sft", "dpo", None)]
    assert tell_apart(pairs, "accuracy") == (
        "By accuracy these cannot be told apart: dpo and start model. The other 1 of 2 pairs can. Not tested, for one"
        " seed or seeds that do not differ: sft and start model; sft and dpo."
    )
    assert tell_apart(pairs[:1], "accuracy") == "By accuracy every two can be told apart."
    assert tell_apart(pairs[2:3], "accuracy").startswith("By accuracy nothing could be tested. Not tested, ")
