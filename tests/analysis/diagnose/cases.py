"""Constructed runs: healthy ones of each algorithm with the noise of small runs, and what a failure changes in them.

calibration = make_calibration()                                # of 40 healthy runs
metrics = make_metrics("grpo", {"reward": lambda x: 0.3 - 0.3 * x}, seed=1)
"""

import random
from functools import cache

from rlhf_exp.analysis.diagnose import diagnose, score_run
from rlhf_exp.analysis.diagnose.calibration import Calibration
from rlhf_exp.runs.records import Diagnosis, Evaluation

ONLINE = {
    "loss": lambda x: 0.01, "grad_norm": lambda x: 0.5, "reward": lambda x: 0.3 + 0.15 * x, "reward_std": lambda x: 0.4,
    "rewards/outcome/mean": lambda x: 0.3 + 0.15 * x, "rewards/format/mean": lambda x: 0.5,
    "outcome/correct": lambda x: 0.25 + 0.15 * x, "outcome/partial": lambda x: 0.6 - 0.12 * x,
    "outcome/failed": lambda x: 0.15 - 0.03 * x, "completions/clipped_ratio": lambda x: 0.06 - 0.01 * x,
    "completions/mean_length": lambda x: 45 + 5 * x, "completions/distinct_2": lambda x: 0.3 - 0.05 * x,
    "completions/eos_rate": lambda x: 0.94 + 0.01 * x, "entropy": lambda x: 0.4 - 0.05 * x,
    "kl_k1": lambda x: 0.02 * x, "ratio/mean": lambda x: 1.0, "sampling/sampling_logp_difference/mean": lambda x: 0.001,
    "probe/kl": lambda x: 0.002 + 0.2 * x, "probe/entropy": lambda x: 1.0 - 0.2 * x,
}  # fmt: skip
GROUPS = {"frac_reward_zero_std": lambda x: 0.1, "kl": lambda x: 0.2 * x, "clip_ratio/region_mean": lambda x: 0.01}
CRITIC = {
    "ppo/kl": lambda x: 2.0 * x, "ppo/kl_coef": lambda x: 0.05, "ppo/explained_variance": lambda x: 0.4 * x,
    "ppo/value_loss": lambda x: 0.1, "ppo/clip_fraction": lambda x: 0.02,
}  # fmt: skip
HEALTHY = {
    "grpo": ONLINE | GROUPS,
    "ppo": ONLINE | CRITIC,
    "dpo": {"loss": lambda x: 0.69 - 0.1 * x, "grad_norm": lambda x: 0.5, "logps/chosen": lambda x: -8 + x,
            "probe/kl": lambda x: 0.05 * x, "probe/entropy": lambda x: 1.0, "entropy": lambda x: 0.3},
    "reward_model": {"loss": lambda x: 0.69 - 0.3 * x, "grad_norm": lambda x: 5.0},
}  # fmt: skip
SHARES = ("outcome/", "completions/clipped", "completions/eos", "completions/distinct", "frac", "clip", "ppo/clip")
CONFIG = {
    "algo": {"name": "grpo", "args": {"learning_rate": 1e-3, "beta": 0.05, "num_generations": 16}},
    "max_tokens": 64,
}


def make_config(algo="grpo", args=None, **values):
    return CONFIG | {"algo": {"name": algo, "args": args or {}}} | values


def make_metrics(algo="grpo", courses=None, rows=40, seed=None):
    """Rows of a run; `courses` replaces those of some keys (functions from 0..1 to the value), None leaves one out.
    With a seed it has noise."""
    rng = random.Random(seed)
    courses = HEALTHY[algo] | (courses or {})

    def value(key, x):
        found = courses[key](x)
        if seed is None or found is None:
            return found
        if key.startswith(SHARES):
            return min(max(found + rng.gauss(0, 0.02), 0.0), 1.0)
        return found * rng.lognormvariate(0, 0.05)

    keys = [key for key, course in courses.items() if course is not None]
    return [{"step": 10 * (i + 1)} | {key: value(key, i / max(rows - 1, 1)) for key in keys} for i in range(rows)]


def interval(value, half):
    return {"value": value, "low": value - half, "high": value + half}


def make_evaluation(difference=0.15, win_rate=0.58, counts=None, algo="grpo", begin=None, **trained):
    """Of 512 rows; `begin` replaces figures of the start model, `trained` those of the trained one."""
    start = 0.55 if algo == "reward_model" else 0.25
    baseline = {"accuracy": interval(start, 0.04), "counts": counts or {"correct": 128, "partial": 300, "failed": 84}}
    baseline |= {"truncation_rate": interval(0.02, 0.01), "mean_tokens": interval(45, 1), "distinct": {"2": 0.2}}
    baseline |= begin or {}
    after = {"accuracy": interval(start + difference, 0.04), "truncation_rate": interval(0.02, 0.01)}
    after |= {"mean_tokens": interval(48, 1), "kl": {"mean": interval(4.0, 0.2)}, "distinct": {"2": 0.19}}
    paired = {"difference": interval(difference, 0.05), "win_rate": interval(win_rate, 0.02), "n": 512}
    return {"baseline": baseline, "trained": after | trained, "paired": paired}


def by_length(shorter, longer):
    parts = (("shorter by 1 to 32", shorter), ("equal", 0.5), ("longer by 1 to 32", longer))
    return [{"label": label, "n": 50, "accuracy": interval(accuracy, 0.1)} for label, accuracy in parts]


@cache
def make_calibration(runs=40):
    """Scores of healthy runs of all algorithms, that differ in how fast they learn."""
    found = []
    for seed in range(runs):
        rng = random.Random(seed)
        algo = tuple(HEALTHY)[seed % len(HEALTHY)]
        pace = rng.uniform(0.3, 1.2)
        courses = {key: lambda x, of=of, pace=pace: of(pace * x) for key, of in HEALTHY[algo].items()}
        courses |= {"validation/accuracy": lambda x: 0.25 + 0.1 * x}
        gain = rng.uniform(0.05, 0.2)
        values = {"by_length": by_length(0.7 + gain / 5, 0.75 - gain / 5)} if algo == "reward_model" else {}
        evaluation = make_evaluation(
            gain, 0.5 + gain / 2, algo=algo, kl={"mean": interval(rng.uniform(1, 6), 0.2)}, **values
        )
        evaluation |= {"baseline": evaluation["baseline"] | {"loss": interval(0.69, 0.02)}}
        evaluation["trained"]["loss"] = interval(0.69 - gain, 0.02)
        config = make_config(algo, reward={"weights": {"outcome": 1.0, "format": 1.0}})
        config["algo"]["args"]["target_kl"] = 3.0
        found.append(score_run(make_metrics(algo, courses, seed=seed), Evaluation(**evaluation), config))
    right = {name: [1, 1] for name in found[0]}
    return Calibration({name: [scores[name] for scores in found] for name in found[0]}, ["constructed"] * runs, right)


class Judged(Diagnosis):
    @property
    def found(self):
        """Its findings by name."""
        return {finding.name: finding for finding in self.findings}


def judge(courses=None, algo="grpo", evaluation=None, config=None, calibration=None, samples=(), **form):
    """The diagnosis of a constructed run."""
    evaluation = make_evaluation(algo=algo) if evaluation is None else evaluation
    config = config or (CONFIG if algo == "grpo" else make_config(algo, {"learning_rate": 1e-3}))
    metrics, calibration = make_metrics(algo, courses, **form), calibration or make_calibration()
    return Judged(**dict(diagnose(metrics, Evaluation(**evaluation), config, None, samples, calibration)))


ANY_SCORE = Calibration({name: [-1e6] * 4 for name in make_calibration().scores})
"""With this every rule that applies has a finding."""
