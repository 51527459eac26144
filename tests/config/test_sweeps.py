"""The shipped studies: what their jobs are, without running one."""

import pytest
from hydra import compose, initialize_config_dir

from rlhf_exp.config import ROOT
from rlhf_exp.config.compose import parse, register_resolvers
from rlhf_exp.launch.sweep import check_tuning

STUDIES = sorted(
    path.stem for path in (ROOT / "sweeps").glob("*.yaml") if "\nstages:" not in path.read_text(encoding="utf-8")
)
"""Those that are sweeps of Hydra's; tests/study has the others."""


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
