from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from rlhf_exp.analysis.stats import LEVELS
from rlhf_exp.analysis.stats.contrasts import POOL
from rlhf_exp.analysis.stats.crossed import Estimate
from rlhf_exp.analysis.study import measures
from rlhf_exp.analysis.study.claims import Claim, decide, judge, read_claims, weigh
from rlhf_exp.analysis.study.measures import Measured, Metric, read_series
from rlhf_exp.config import ROOT
from rlhf_exp.errors import ConfigError
from rlhf_exp.runs.load import Run
from rlhf_exp.runs.records import Completion, Diagnosis, Errors, Evaluation, RunRecord, Section

ROWS = 60


def make_run(seed, solved, tokens=20, **more):
    """A run in memory: before and after, of each row whether it is solved; a quarter of the rows is solved before."""
    samples = []
    for which, right in {"baseline": [row % 4 == 0 for row in range(ROWS)], "trained": solved}.items():
        for row, correct in enumerate(right):
            outcome = "correct" if correct else "failed"
            samples.append(Completion(which=which, id=str(row), outcome=outcome, reward=float(correct), kl=0.5,
                                      tokens=tokens + row % 3, completion="1 + 2 = 3"))  # fmt: skip
    info = RunRecord(**{"seed": seed, "status": "finished", "steps": 10} | more.pop("info", {}))
    lists = ("metrics", "alarms", "validation", "policies", "preferences", "set_samples", "overrides")
    parts = {name: [] for name in lists} | {"facts": {}, "config": {}, "samples": samples}
    kinds = {"errors": Errors, "diagnosis": Diagnosis, "evaluation": Evaluation}
    records = {name: kind(**more.pop(name, {})) for name, kind in kinds.items()}
    records["evaluation"].trained = records["evaluation"].trained or Section()
    return Run(Path("run"), info, **(parts | records | more))


@pytest.fixture(scope="module")
def arms():
    """Of `good` half of the rows are solved after training, of `same` as many as before; three seeds of each."""
    rng = np.random.default_rng(0)
    of = {"good": lambda row: row % 4 == 0 or rng.random() < 0.7, "same": lambda row: rng.random() < 0.25}
    return {arm: [make_run(s, [solve(row) for row in range(ROWS)]) for s in range(3)] for arm, solve in of.items()}


@pytest.fixture
def groups(arms):
    return dict(arms)


def make_claim(expect, contrast=("good", "same"), metric="accuracy", **more):
    return Claim(says="It holds.", metric=metric, contrast=list(contrast), expect=expect, **more)


def find_verdict(claim, groups):
    return judge({"c": claim}, groups)[0].verdict


def measure(name, groups, arms, **more):
    return measures.measure(Metric(metric=name, **more), groups, arms)


@pytest.mark.parametrize(
    ("claim", "verdict"),
    [
        (make_claim("higher"), "supported"),
        (make_claim("lower"), "contradicted"),
        (make_claim("higher", margin=0.9), "contradicted"),
        (make_claim("order", ["good", "same"]), "supported"),
        (make_claim("higher", ["good", "same", "start"]), "cannot tell"),  # one of the two gained
        (make_claim("equal", ["same", "start"], margin=0.3), "supported"),
        (make_claim("differ", ["same", "start"], margin=0.3), "contradicted"),
        (make_claim("value", ["good"], value=0.8, margin=0.2), "supported"),
        (make_claim("higher", ["good"], "win rate", value=0.5), "supported"),
        (make_claim("higher", ["good"], "ppo/kl", statistic="largest", value=0.0), "not tested"),
        (make_claim("higher", ["gone", "same"]), "not tested"),
        (make_claim("higher", ["good", "same"], "KL"), "not tested"),  # the same in every row and seed
    ],
)
def test_a_verdict_follows_from_the_intervals(groups, claim, verdict):
    assert find_verdict(claim, groups) == verdict


def test_a_difference_of_arms_is_that_of_the_means_over_the_same_rows(groups):
    of_rows = {arm: np.array([[s.is_correct for s in run.samples[ROWS:]] for run in group])
               for arm, group in groups.items()}  # fmt: skip
    found = measure("accuracy", groups, ["good", "same"])
    assert found.estimate.value == pytest.approx(of_rows["good"].mean() - of_rows["same"].mean())
    assert (found.label, found.seeds, found.rows, found.share) == ("good - same", [3, 3], ROWS, True)
    gain = measure("accuracy", groups, ["good", "start"])
    assert gain.estimate.value == pytest.approx(of_rows["good"].mean() - 0.25)


def test_a_figure_on_an_evaluation_set_is_of_its_rows_and_its_reward():
    def make(seed, reward):
        lines = [Completion(which=which, id=str(row), set="gold", reward=value + row % 3) for row in range(9)
                 for which, value in (("baseline", 0.0), ("trained", reward + 0.1 * seed))]  # fmt: skip
        sets = {"gold": {"trained": {}}}
        config = {"reward": {"path": str(seed)}, "eval": {"sets": {"gold": {"task": "hh_rlhf", "reward": "runs/gold"}}}}
        return make_run(seed, [True] * ROWS, set_samples=lines, evaluation={"trained": {}, "sets": sets}, config=config)

    groups = {"a": [make(seed, 1.0) for seed in range(3)], "b": [make(seed, 3.0) for seed in range(3)]}
    assert measure("reward", groups, ["b", "a"], set="gold").estimate.value == pytest.approx(2.0)
    found = measure("reward", groups, ["a", "start"], set="gold")
    assert found.estimate.value == pytest.approx(1.1) and found.rows == 9
    with pytest.raises(measures.Untested, match="fewer than two runs of b"):
        measure("reward", groups, ["b", "a"], set="silver")


@pytest.mark.parametrize("name", ["x", "reward", "accuracy"])  # held-out rows have figures of the last two names too
def test_one_number_per_run_borrows_the_spread_of_the_arms(name):
    numbers = {"a": [1.0, 2.0, 4.0], "b": [5.0, 9.0]}
    groups = {arm: [make_run(s, [True] * ROWS, metrics=[{"step": i, name: value} for i in range(2)])
                    for s, value in enumerate(of)] for arm, of in numbers.items()}  # fmt: skip
    both = measure(name, groups, ["b", "a"], statistic="mean").estimate
    own = {arm: np.var(of, ddof=1) for arm, of in numbers.items()}
    pooled = (2 * own["a"] + 1 * own["b"]) / 3
    square = (2 * own["a"] + POOL * pooled) / (2 + POOL) / 3 + (1 * own["b"] + POOL * pooled) / (1 + POOL) / 2
    assert [both.value, both.error] == pytest.approx([7 - 7 / 3, np.sqrt(square)])
    one = measure(name, groups, ["a"], statistic="mean").estimate
    assert [one.value, one.error**2] == pytest.approx([7 / 3, (2 * own["a"] + POOL * pooled) / (2 + POOL) / 3])


@pytest.mark.parametrize(
    ("metric", "number"),
    [
        ({"statistic": "largest"}, 8.0), ({"statistic": "smallest"}, -1.0), ({"statistic": "mean"}, 3.5),
        ({"statistic": "median"}, 3.5), ({"statistic": "end"}, 8.0), ({"statistic": "change"}, 9.0),
        ({"statistic": "share below", "bound": 0.5}, 0.2), ({"statistic": "share above", "bound": 6.5}, 0.2),
        ({"statistic": "until"}, 1.0), ({"statistic": "variation"}, 0.0), ({"statistic": "falls"}, 0.0),
        ({"statistic": "largest", "log10": True}, np.log10(8)), ({"statistic": "smallest", "log10": True}, None),
    ],
)  # fmt: skip
def test_statistics_of_a_series(metric, number):
    rows = [{"step": step, "x": step - 1.0} for step in range(10)]
    run = make_run(0, [], metrics=[*rows, {"step": 10}])
    metric = Metric(metric="x", **metric)
    assert read_series(metric, run) == (number if number is None else pytest.approx(number))
    assert read_series(metric, make_run(0, [], metrics=rows[:1])) is None


def test_a_ratio_of_figures_is_that_of_each_run():
    solved = [[row < kept for row in range(ROWS)] for kept in (30, 45)]
    groups = {"a": [make_run(s, of, tokens=9) for s, of in enumerate(solved)]}
    assert measure("accuracy", groups, ["a"], per="tokens").estimate.value == pytest.approx(0.0625)
    assert measure("accuracy", groups, ["a", "start"], per="tokens").estimate.value == pytest.approx(0.0375)


def test_calculations_are_counted_and_checked():
    text = "<think> 19 + 7 = 26 + 13 = 39 no 2 * 3 = 7 ; <<1.5/2=0.75>> 12345 = 3 </think>"
    runs = [make_run(s, [True] * ROWS) for s in range(2)]
    for run in runs:
        for sample in run.samples:
            sample.completion = text if sample.which == "trained" or int(sample.id) % 2 else "none"
    count, true = (measure(name, {"a": runs}, ["a", "start"]).estimate.value
                   for name in ("calculations", "true calculations"))  # fmt: skip
    assert (count, true) == (2.0, 1.5)


def test_figures_of_held_out_pairs_are_one_number_per_run():
    losses = [{"step": step, "loss": 0.9} for step in range(10)]
    parts = {"metrics": losses, "errors": {"counts": {"near_tie": 1, "other": 3}}}
    found = {"loss": {"value": 0.7, "low": 0.6, "high": 0.8}, "calibration_error": 0.08}
    evaluation = {"trained": {"preference": found}}
    runs = [make_run(s, [True] * ROWS, evaluation=evaluation, **parts) for s in range(2)]
    for name, number in {"calibration error": 0.08, "excess loss": 0.2, "near ties": 0.25}.items():
        assert measures._read_number(Metric(metric=name), runs[0], False).tolist() == pytest.approx([number])
        assert measures._read_number(Metric(metric=name), make_run(0, [True] * ROWS), False) is None


def test_a_cost_that_the_config_fixes_is_a_constant_and_has_no_test():
    work = {"a": 128, "b": 64}
    groups = {arm: [make_run(s, [True] * ROWS, info={"work": {"completions": n}}) for s in range(2)]
              for arm, n in work.items()}  # fmt: skip
    [found] = judge({"a": make_claim("higher", ["a", "b"], "completions")}, groups)
    assert found.verdict == "not tested" and "for all seeds: a constant needs no test" in found.reason


def test_rewards_of_arms_are_compared_under_one_reward_only(groups):
    groups["good"] = [make_run(s, [True] * ROWS, config={"reward": {"path": "model"}}) for s in range(3)]
    found = judge(
        {"a": make_claim("higher", metric="reward"), "b": make_claim("higher", ["good", "start"], "reward")}, groups
    )
    assert [one.verdict for one in found] == ["not tested", "supported"]
    assert "reward" in found[0].reason and "same" in found[0].reason


def test_models_that_were_measured_alone_are_arms_too(groups):
    for arm in ("good", "same"):
        groups[f"{arm} alone"] = [
            replace(run, info=run.info.model_copy(update={"algo": "none"}), evaluation=Evaluation(baseline={}),
                    samples=[one.model_copy(update={"which": "baseline"}) for one in run.samples[ROWS:]])
            for run in groups[arm]
        ]  # fmt: skip
    both, alone = (measure("accuracy", groups, [f"good{more}", f"same{more}"]).estimate for more in ("", " alone"))
    assert alone == pytest.approx(both)
    assert find_verdict(make_claim("higher", ["good alone", "start"]), groups) == "not tested"
    once = {"good": groups["good"], "once": groups["same alone"][:1] * 3}
    spreads = [measure("accuracy", once, arms).estimate for arms in (["good"], ["once"], ["good", "once"])]
    assert spreads[0] == pytest.approx(measure("accuracy", {"good": groups["good"]}, ["good"]).estimate)
    assert spreads[1].by_seeds == 0 and spreads[1].df == ROWS - 1 and spreads[2].by_seeds >= 0


def test_one_seed_tests_nothing(groups):
    groups["good"] = groups["good"][:1]
    found = judge({"c": make_claim("higher")}, groups)[0]
    assert (found.verdict, found.measured) == ("not tested", []) and "good" in found.reason


def test_a_family_of_claims_by_hand():
    """Of a difference of 3 with an error of 1 and one of 1.9, both normal: Holm doubles the smaller p-value."""
    first, second = (Estimate(value, value, 1.0, 0.0, 0.0, 1e9) for value in (3.0, 1.9))
    claims = [make_claim("higher"), make_claim("lower"), make_claim("order", ["a", "b", "c"]), make_claim("higher")]
    made = [[first], [second], [first, second], "no such arm"]
    tests = [("c", c, m if isinstance(m, str) else [Measured("x", e, LEVELS, [3], 9, False) for e in m])
             for c, m in zip(claims, made, strict=True)]  # fmt: skip
    found, p3, p19 = decide(tests), stats.norm.sf(3.0), stats.norm.sf(1.9)
    assert weigh(*tests[0][1:]) == pytest.approx((p3, 1 - p3))
    assert weigh(*tests[1][1:]) == pytest.approx((1 - p19, p19)) and weigh(*tests[2][1:]) == pytest.approx((p19, 1.0))
    assert {one.level for one in found[:3]} == {0.05 / 2}  # the first of three is decided
    assert [one.verdict for one in found] == ["supported", "cannot tell", "cannot tell", "not tested"]
    assert found[1].detectable == pytest.approx(stats.norm.isf(0.025 / 2) + stats.norm.ppf(0.8), abs=1e-6)


def test_equality_takes_two_one_sided_tests():
    found = Estimate(0.5, 0.5, 1.0, 0.0, 0.0, 1e9)
    equal, differ = (
        weigh(make_claim(expect, margin=2.0), [Measured("x", found, LEVELS, [3], 9, False)])
        for expect in ("equal", "differ")
    )
    assert equal == pytest.approx((stats.norm.sf(1.5), stats.norm.sf(-1.5)))
    assert differ == equal[::-1]


@pytest.mark.parametrize(("metric", "repeats"), [("reward", 15), ("x", 60)])
def test_the_probability_of_any_wrong_verdict_is_at_most_five_percent(metric, repeats):
    """Ten claims whose true effect lies at the margin, so that every verdict but `cannot tell` is wrong. The runs have
    the effects of seeds, of rows and of sampling; one of the arms has a wider spread over seeds."""
    rng, shifts = np.random.default_rng(1), {"a": 0.0, "b": 0.0, "c": 0.3, "d": 0.3, "e": 0.6}
    more = {"metric": metric, "statistic": "mean" if metric == "x" else None}
    chosen = [("higher", ("ca", "db", "ec")), ("lower", ("ad", "bc", "de")), ("equal", ("ac",)), ("differ", ("ed",))]
    claims = [make_claim(expect, pair, margin=0.3, **more) for expect, pairs in chosen for pair in pairs]
    claims += [make_claim("order", arms, **more) for arms in ("ab", "dc")]
    count = sum(
        any(one.verdict != "cannot tell" for one in judge(dict(enumerate(claims)), draw_groups(rng, shifts, metric)))
        for _ in range(repeats)
    )
    assert len(claims) == 10 and stats.binomtest(count, repeats, 0.05, "greater").pvalue > 0.01


def draw_groups(rng, shifts, metric, rows=25, seeds=3):
    """Arms whose means differ by `shifts`."""
    hard, groups = rng.normal(size=rows), {}
    for arm, shift in shifts.items():
        means = shift + rng.normal(scale=0.6 if arm == "e" else 0.2, size=seeds)
        if metric == "x":
            groups[arm] = [
                make_run(s, [], metrics=[{"step": i, "x": mean} for i in (1, 2)]) for s, mean in enumerate(means)
            ]
            continue
        groups[arm] = [make_run(s, [True] * rows) for s in range(seeds)]
        for run, mean in zip(groups[arm], means, strict=True):
            for row, value in enumerate(mean + hard + rng.normal(size=rows)):
                run.samples[ROWS + row].reward = float(value)
    return groups


def test_shipped_claims_are_those_of_the_hand_made_studies():
    counts = {path.stem: len(read_claims(path)) for path in (ROOT / "sweeps" / "claims").glob("*.yaml")}
    assert counts.items() >= {"comparison": 25, "gsm8k": 14}.items()


GOOD = """
a-1:
  says: One is higher.
  figure: "0.5, one run"
  metric: accuracy
  contrast: [a, start]
  expect: higher
a-2:
  says: It looks nice.
  not_tested: looks are not measured
"""


@pytest.mark.parametrize(
    ("before", "after", "key", "said"),
    [
        ("metric:", "metrik:", "a-1.metrik", "did you mean metric?"),
        ("metric: accuracy", "", "a-1", "`metric`"),
        ("metric: accuracy", "metric: acuracy", "a-1.metric", "did you mean accuracy?"),
        ("metric: accuracy", "metric: ppo/kl", "a-1.metric", "a series with its `statistic`"),
        ("metric: accuracy", "metric: updates\n  set: gold", "a-1.metric", "must be one of"),
        ("expect: higher", "", "a-1.expect", "metric"),
        ("expect: higher", "expect: value", "a-1.value", "value"),
        ("[a, start]", "[a]", "a-1.contrast", "at least 2"),
        ("[a, start]", "[start, a]", "a-1.contrast", "last"),
        ("metric: accuracy", "metric: win rate", "a-1.contrast", "start"),
        ("  not_tested: looks are not measured\n", "", "a-2", "not_tested"),
    ],
)
def test_a_mistake_in_a_file_of_claims_is_one_line(tmp_path, before, after, key, said):
    path = tmp_path / "claims.yaml"
    path.write_text(GOOD)
    assert list(read_claims(path)) == ["a-1", "a-2"]
    assert before in GOOD
    path.write_text(GOOD.replace(before, after, 1))
    with pytest.raises(ConfigError) as found:
        read_claims(path)
    (line,) = found.value.problems
    assert line.startswith(f"{path}: {key}") and said in line
