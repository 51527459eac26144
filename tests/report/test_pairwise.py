from rlhf_exp.report.pairwise import START, Pair, summarise_pairs


def pair(first, second, adjusted):
    return Pair(first, second, {"value": 0.1, "low": None, "high": None}, adjusted, adjusted)


def test_a_pair_that_was_not_tested_is_not_called_alike():
    pairs = [pair("ppo", START, 0.01), pair("dpo", START, 0.2), pair("sft", START, None), pair("sft", "dpo", None)]
    assert summarise_pairs(pairs, "accuracy") == (
        "In accuracy these do not differ significantly (Holm, p < 0.05): dpo and start model. The other 1 of 2 pairs"
        " do. Not tested, for one seed or seeds that do not differ: sft and start model; sft and dpo."
    )
    assert summarise_pairs(pairs[:1], "accuracy") == "In accuracy every two differ significantly (Holm, p < 0.05)."
    assert summarise_pairs(pairs[2:3], "accuracy").startswith("In accuracy nothing could be tested. Not tested, ")
