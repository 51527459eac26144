"""The shipped studies: what their jobs are, without running one."""

from dataclasses import replace

import pytest
import yaml
from hydra import compose, initialize_config_dir

from rlhf_exp.config import ROOT
from rlhf_exp.config.compose import compose_config, register_resolvers

FILES = sorted((ROOT / "sweeps").glob("*.yaml"))
STUDIES = [path.stem for path in FILES if "stages" not in yaml.safe_load(path.read_text())]


@pytest.mark.parametrize("study", STUDIES)
def test_a_study_has_a_fixed_folder_and_runs_nothing_twice(study):
    register_resolvers()
    with initialize_config_dir(str(ROOT / "sweeps"), version_base="1.3"):
        search = [f"hydra.searchpath=[file://{ROOT / 'conf'}]", "hydra/launcher=basic"]
        cfg = compose(study, search, return_hydra_config=True)
    assert cfg.hydra.sweep.dir == f"outputs/{study}"
    assert cfg.skip_finished is True
    assert len(cfg.hydra.sweeper.params.seed.split(",")) == 3


def read_stages(study):
    """The options of each stage of a study."""
    values = yaml.safe_load((ROOT / "sweeps" / f"{study}.yaml").read_text())
    return {name: [*values.get("options", ()), *stage["options"]] for name, stage in values["stages"].items()}


def compose_remedies(study):
    *options, swept = read_stages(study)["remedies"]
    names = swept.removeprefix("+remedy=").split(",")
    sweeps = str(ROOT / "sweeps")
    return {name: compose_config([*options, f"+remedy={name}", "output_dir=x"], config_dir=sweeps) for name in names}


def test_every_remedy_that_falls_here_is_an_arm_at_equal_tokens_that_changes_one_thing(monkeypatch):
    monkeypatch.chdir(ROOT)  # where the reward of a remedy is looked for
    settings = compose_remedies("countdown_tiny")
    base = settings["none"]
    for cfg in settings.values():
        assert (cfg.train_tokens, cfg.max_tokens, cfg.eval) == (40_000, 48, base.eval)
    changed = {arm: sum(getattr(cfg, part) != getattr(base, part) for part in ("reward", "algo", "task"))
               for arm, cfg in settings.items()}  # fmt: skip
    assert changed == {arm: int(arm != "none") for arm in settings}


def test_a_remedy_at_full_size_leaves_the_collapsed_cell_as_it_is(monkeypatch):
    monkeypatch.chdir(ROOT)
    settings = compose_remedies("countdown")
    cell = compose_config([*read_stages("countdown")["dr_grpo_long"], "output_dir=x"])
    assert settings["none"] == cell
    for cfg in settings.values():
        assert (cfg.max_tokens, cfg.algo.args["learning_rate"], cfg.eval) == (1024, 7e-6, cell.eval)


def test_every_remedy_is_an_arm_of_a_study():
    arms = {"no_length_penalty"}
    for stages in (read_stages("countdown"), read_stages("countdown_tiny")):
        arms |= {*stages, *stages["remedies"][-1].removeprefix("+remedy=").split(",")}
    assert {path.stem for path in (ROOT / "sweeps" / "remedy").glob("*.yaml")} <= arms


CLAIMS = {"brevity": 32, "countdown": 32, "comparison": 25, "hh_rlhf": 71, "gsm8k": 14}


@pytest.mark.parametrize("study", CLAIMS)
def test_both_forms_have_the_arms_that_claims_name_but_for_the_full_ones(study):
    claims = yaml.safe_load((ROOT / "sweeps" / "claims" / f"{study}.yaml").read_text())
    full, tiny = read_stages(study), read_stages(f"{study}_tiny")
    assert {*tiny} - {*full} <= {"flat_start", "sft"}  # GPT-2 is flat enough; a pretrained model needs no sft
    named = {arm.split()[0] for claim in claims.values() for arm in claim.get("contrast", ())} - {"start"}
    assert named <= {*tiny} and len(claims) == CLAIMS[study]


METHODS = {
    "sft": ("sft", "nll"), "rejection_sampling": ("sft", "nll"), "dpo": ("dpo", ["sigmoid"]), "kto": ("kto", "kto"),
    "ppo": ("ppo", None), "grpo": ("grpo", "grpo"), "dr_grpo": ("grpo", "dr_grpo"), "rloo": ("rloo", None),
    "distill": ("distill", None),
}  # fmt: skip


@pytest.mark.parametrize(("study", "tokens"), [("comparison", 4_000_000), ("comparison_tiny", 80_000)])
def test_the_comparison_has_every_method_at_equal_tokens_measured_alike(study, tokens):
    stages = read_stages(study)
    taught = {"distill": ["teacher.path=org/name"]}
    jobs = {name: compose_config([*stages[name], *taught.get(name, []), "output_dir=x"]) for name in METHODS}
    measured = {name: replace(cfg.eval, every=None, sets={}) for name, cfg in jobs.items()}
    for name, cfg in jobs.items():
        assert (cfg.train_tokens, measured[name]) == (tokens, measured["sft"])
        assert (cfg.max_tokens, cfg.task.numbers) == (jobs["sft"].max_tokens, [3])
        assert (cfg.algo.name, cfg.algo.args.get("loss_type")) == METHODS[name]
        assert (cfg.task.samples == "self") == (name == "rejection_sampling")
        assert 2 <= cfg.algo.args["max_steps"] / cfg.eval.every <= 5
    assert jobs["dr_grpo"].algo.args["scale_rewards"] == "none"
    assert len({jobs[name].algo.args["max_steps"] for name in ("grpo", "dr_grpo", "rloo", "distill")}) == 1
