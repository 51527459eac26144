"""The shipped studies: what their jobs are, without running one."""

from dataclasses import replace

import pytest
from hydra import compose, initialize_config_dir

from rlhf_exp.config import ROOT
from rlhf_exp.config.compose import parse, register_resolvers
from rlhf_exp.launch.sweep import check_tuning

STUDIES = sorted(
    path.stem for path in (ROOT / "sweeps").glob("*.yaml") if "\nstages:" not in path.read_text(encoding="utf-8")
)
"""Those that are sweeps of Hydra's; tests/study has the others."""
METHODS = {
    "compare_sft": ("sft", "nll"),
    "compare_rejection_sampling": ("sft", "nll"),
    "compare_dpo": ("dpo", ["sigmoid"]),
    "compare_kto": ("kto", "kto"),
    "compare_ppo": ("ppo", None),
    "compare_rloo": ("rloo", None),
    "compare_grpo": ("grpo", "grpo"),
    "compare_dr_grpo": ("grpo", "dr_grpo"),
}


def compose_job(study, *overrides, hydra=False):
    register_resolvers()
    with initialize_config_dir(str(ROOT / "sweeps"), version_base="1.3"):
        search = [f"hydra.searchpath=[file://{ROOT / 'conf'}]", "hydra/launcher=basic"]
        return compose(study, [*search, *overrides], return_hydra_config=hydra)


@pytest.mark.parametrize("study", STUDIES)
def test_a_study_has_a_fixed_folder_and_runs_nothing_twice(study):
    cfg = compose_job(study, hydra=True)
    assert cfg.hydra.sweep.dir == f"outputs/{study}"
    assert cfg.skip_finished is True
    if study == "tune_grpo":
        assert check_tuning(cfg.hydra, cfg) == []
        return
    swept = "eval.seed" if study == "noise" else "seed"
    assert len(cfg.hydra.sweeper.params[swept].split(",")) == (8 if study == "noise" else 3)


def test_the_comparison_has_every_method_at_equal_tokens_measured_alike():
    params = compose_job("compare", hydra=True).hydra.sweeper.params
    assert params["experiment"].split(",") == list(METHODS)
    jobs = {name: parse(compose_job("compare", f"experiment={name}")) for name in METHODS}
    assert {cfg.train_tokens for cfg in jobs.values()} == {350_000}
    assert all(replace(cfg.eval, every=None) == replace(jobs["compare_sft"].eval, every=None) for cfg in jobs.values())
    assert all(cfg.max_tokens == 96 and cfg.task.name == "countdown" for cfg in jobs.values())
    for name, (algo, _) in METHODS.items():
        assert jobs[name].algo.name == algo
        assert (jobs[name].task.samples == "self") == (name == "compare_rejection_sampling")
        assert 8 <= jobs[name].algo.args["max_steps"] / jobs[name].eval.every <= 10
    assert jobs["compare_dr_grpo"].algo.args["loss_type"] == "dr_grpo"
    assert jobs["compare_dr_grpo"].algo.args["scale_rewards"] == "none"
    assert jobs["compare_dr_grpo"].algo.args["max_steps"] == jobs["compare_grpo"].algo.args["max_steps"]


def test_every_remedy_is_an_arm_at_equal_tokens_that_changes_one_thing(monkeypatch):
    monkeypatch.chdir(ROOT)  # where the reward of a remedy is looked for
    arms = compose_job("countdown_remedies", hydra=True).hydra.sweeper.params["remedy"].split(",")
    assert sorted(arms) == sorted(path.stem for path in (ROOT / "sweeps" / "remedy").glob("*.yaml"))
    settings = {arm: parse(compose_job("countdown_remedies", f"remedy={arm}", "output_dir=x")) for arm in arms}
    base = settings["none"]
    for cfg in settings.values():
        cfg.algo.args.pop("reward_weights")  # follows the rewards
        assert (cfg.train_tokens, cfg.max_tokens, cfg.eval) == (base.train_tokens, base.max_tokens, base.eval)
    changed = {arm: sum(getattr(cfg, part) != getattr(base, part) for part in ("reward", "algo", "task"))
               for arm, cfg in settings.items()}  # fmt: skip
    assert changed == {arm: int(arm != "none") for arm in arms}
