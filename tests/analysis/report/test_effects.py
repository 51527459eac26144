from dataclasses import replace

import pytest

from rlhf_exp.analysis.report.columns import TRAINED
from rlhf_exp.analysis.report.effects import compare_keys
from tests.analysis.report.test_answer import said


@pytest.fixture
def swept(make_groups):
    """Two losses, of which one gains, at two betas, which change nothing."""
    groups = {}
    for loss, runs in make_groups(4, grpo=0.4, bnpo=0.0).items():
        for beta, some in {"0.0": runs[:2], "0.1": runs[2:]}.items():
            typed = [f"loss_type={loss}", f"algo.args.beta={beta}"]
            groups[f"{loss} beta={beta}"] = [replace(run, overrides=typed) for run in some]
            for run in some:
                run.config["algo"]["args"]["beta"] = float(beta)
    return groups


def test_each_key_is_compared_over_the_settings_that_differ_in_it_alone(swept):
    effects = compare_keys(swept, TRAINED)
    [loss], [beta] = effects["loss_type"], effects["algo.args.beta"]
    figures = {label: sum(TRAINED.read(run)["value"] for run in group) / 2 for label, group in swept.items()}
    gaps = [figures[f"grpo beta={beta}"] - figures[f"bnpo beta={beta}"] for beta in ("0.0", "0.1")]
    assert (loss.first, loss.second, loss.verdict) == ("grpo", "bnpo", 1)
    assert loss.interval["value"] == pytest.approx(sum(gaps) / 2)
    assert beta.verdict == 0 and beta.interval["low"] <= 0 <= beta.interval["high"]
    swept["bnpo beta=0.1"][0].info.model = "other"
    first, caution, *_ = said(swept)
    assert (first, caution) == ("What mattered.", "Caution.")
    told = said(swept)["What mattered."]
    assert "Each takes all settings that differ in that key alone" in told and told.endswith("budgets differ.")
    assert "loss_type: grpo is above bnpo (+" in told and " is not clearly different from 0." in told


def test_settings_of_one_seed_or_with_keys_of_their_own_are_left_out_of_what_a_key_changes(swept):
    found = compare_keys(swept, TRAINED)
    typed = [*swept["grpo beta=0.1"][0].overrides, "algo.args.scale_rewards=none"]
    scaled = [replace(run, overrides=typed) for run in swept["bnpo beta=0.1"]]
    single = [replace(swept["grpo beta=0.1"][0], overrides=["loss_type=sapo", "algo.args.beta=0.1"])]
    assert compare_keys(swept | {"scaled": scaled, "sapo": single}, TRAINED) == found


def test_keys_without_settings_that_differ_in_one_alone_are_not_compared(swept):
    del swept["bnpo beta=0.1"]
    assert compare_keys(swept, TRAINED) == {} and "What mattered." not in said(swept)
    del swept["bnpo beta=0.0"]
    assert compare_keys(swept, TRAINED) == {}
