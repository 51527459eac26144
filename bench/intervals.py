"""How often the 95% intervals of our statistics cover the truth, and how often its tests are right: by simulation.

    python bench/intervals.py                     # every table, in minutes
    python bench/intervals.py --repeats 200       # quicker, with a standard error of 1.5 points
    python bench/intervals.py --rows 1398 --starts 4 --only tests    # one table, of runs as the default's
    python bench/intervals.py --only few_seeds

A row has a difficulty that all models share, one of its own for each model, and a completion is correct by chance: 88%
of the variance of an accuracy is sampling within rows, as for the shipped model. The start model is measured by
`--starts` passes of `--rows` rows that all seeds and settings share. Truth is the difference of the probabilities over
all rows, seeds and completions. `shared` is the correlation of the random numbers that two models draw with on the same
row.
"""

import argparse
import math
from collections.abc import Iterator, Sequence

import numpy as np
from scipy import stats
from scipy.optimize import brentq
from scipy.special import ndtri

from rlhf_exp.analysis.stats import (
    DIFFERENCES,
    LEVELS,
    SHARES,
    SIZES,
    Interval,
    compare_settings,
    crossed_interval,
    mean_interval,
    paired_interval,
    share_interval,
    wilson,
)
from rlhf_exp.analysis.stats.collapse import find_collapsed
from rlhf_exp.analysis.stats.crossed import estimate
from rlhf_exp.analysis.stats.intervals import standard_error
from rlhf_exp.analysis.stats.planning import POWER

START, TRAINED = 0.22, 0.35
COLLAPSED = np.array([0.429, 0.428, 0.016])
UNEQUAL = np.array([0.01, 0.01, 0.01, 0.02, 0.02, 0.04, 0.06])
ONE_WIDE = np.array([0.08, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02])
OF_ROW, OF_MODEL = 0.1, 0.1  # variances of a row's difficulty; that of chance is the rest to 1
RESAMPLES = 500
QUANTILES = 60  # of each setting's spread in a plan
RARE = {"2% of rows change": 1, "0 to 2%, completions alike": 4}
"""Changes of few rows, with the number of completions of each."""


def draw(
    rng: np.random.Generator,
    starts: int,
    means: np.ndarray,
    rows: int,
    shared: float = 0.0,
    completions: int = 1,
) -> tuple[np.ndarray, np.ndarray]:
    """Shares of correct completions: (starts, rows) of the start model, which has `starts` passes, and of the models
    whose accuracies are `means`, (*means.shape, rows)."""
    difficulty, luck = rng.standard_normal(rows), rng.standard_normal((rows, completions))

    def sample(accuracy: np.ndarray, own: np.ndarray) -> np.ndarray:
        noise = np.sqrt(shared) * luck + np.sqrt(1 - shared) * rng.standard_normal((*own.shape, completions))
        level = ndtri(accuracy)[..., None] + np.sqrt(OF_ROW) * difficulty + np.sqrt(OF_MODEL) * own
        return (level[..., None] + np.sqrt(1 - OF_ROW - OF_MODEL) * noise > 0).mean(-1)

    own = np.broadcast_to(rng.standard_normal(rows), (starts, rows))
    start = sample(np.full(starts, START), own)
    return start, sample(means, rng.standard_normal((*means.shape, rows)))


def bootstrap_both(gains: np.ndarray, row_weights: np.ndarray, seed_weights: np.ndarray) -> Interval:
    """The percentile bootstrap that resamples seeds and rows (Owen 2007, the pigeonhole bootstrap)."""
    means = ((seed_weights @ gains) * row_weights).sum(1)
    low, high = np.quantile(means, [0.025, 0.975])
    return {"value": float(gains.mean()), "low": float(low), "high": float(high)}


def over_seeds(rng: np.random.Generator, repeats: int, rows: int, starts: int) -> Iterator[str]:
    """Coverage of the mean gain over the start."""
    yield "Gain over the start, mean over seeds. Share of intervals that hold the truth, and their median width, points"
    yield f"{'seeds':>5} {'deviation':>9} {'shared':>6} {'crossed':>14} {'bootstrap':>14} {'t over seeds':>14}"
    row_weights = rng.multinomial(rows, np.full(rows, 1 / rows), RESAMPLES) / rows
    for deviation in (0.0, 0.02):
        for shared in (0.0, 0.5):
            for seeds in (2, 3, 5, 10):
                seed_weights = rng.multinomial(seeds, np.full(seeds, 1 / seeds), RESAMPLES) / seeds
                found: list[tuple[Interval, ...]] = []
                for _ in range(repeats):
                    means = TRAINED + deviation * rng.standard_normal(seeds)
                    start, trained = draw(rng, starts, means, rows, shared)
                    gains = trained - start.mean(0)
                    crossed = crossed_interval(gains, DIFFERENCES)
                    both = bootstrap_both(gains, row_weights, seed_weights)
                    found.append((crossed, both, mean_interval(gains.mean(1))))
                cells = " ".join(_cell(of_method, TRAINED - START) for of_method in zip(*found, strict=True))
                yield f"{seeds:5} {100 * deviation:9.0f} {shared:6.1f} {cells}"


def few_seeds(rng: np.random.Generator, repeats: int, *design: int) -> Iterator[str]:
    """Coverage of accuracies and gains over 2, 3 and 5 seeds, however far these spread."""
    yield "Share of intervals that hold the truth, and their median width, points"
    yield f"{'rows':>5} {'starts':>6} {'deviation':>9}" + "".join(
        f" {f'{name}, {seeds} seeds':>17}" for seeds in (2, 3, 5) for name in ("accuracy", "gain")
    )
    for rows, starts in ((512, 1), (1398, 4)):
        for deviation in (0.0, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08):
            cells = []
            for seeds in (2, 3, 5):
                found = []
                for _ in range(repeats):
                    means = np.clip(TRAINED + deviation * rng.standard_normal(seeds), 0.001, 0.999)
                    start, trained = draw(rng, starts, means, rows)
                    gain = crossed_interval(trained - start.mean(0), DIFFERENCES)
                    found.append((crossed_interval(trained, SHARES), gain))
                accuracies, gains = zip(*found, strict=True)
                cells += [_cell(accuracies, TRAINED), _cell(gains, TRAINED - START)]
            yield f"{rows:5} {starts:6} {100 * deviation:9.0f} " + " ".join(f"{cell:>17}" for cell in cells)


def of_one_run(rng: np.random.Generator, repeats: int, *design: int) -> Iterator[str]:
    """Coverage of one run's accuracy and of its gain."""
    yield "One run. Share of intervals that hold the truth"
    yield f"{'':30} {'rows':>5} {'completions':>11} {'accuracy':>9} {'gain':>6} {'bootstrap':>9}"
    cases = {"22 to 35%": (START, 0.13), "1 to 3%": (0.01, 0.02), "97 to 99%": (0.97, 0.02), **RARE}
    for rows in (16, 100, 512):
        for name, case in cases.items():
            for completions in (1, 4):
                if name in RARE and completions != case:
                    continue
                hits = np.zeros(3)
                for _ in range(repeats):
                    if name in RARE:
                        before = 0.3 if completions == 1 else 0.0
                        start = (rng.random(rows) < before).astype(float)
                        trained = np.where(rng.random(rows) < 0.02, 1 - start, start)
                        truth = 0.02 * (1 - 2 * before)
                        level = before + truth
                    else:
                        truth, level = case[1], sum(case)
                        _, (start, trained) = draw(
                            rng, 0, np.array([case[0], level]), rows=rows, completions=completions
                        )
                    hits[0] += _holds(share_interval(trained, completions), level)
                    hits[1] += _holds(paired_interval(start, trained, DIFFERENCES), truth)
                    hits[2] += _holds(bootstrap_rows(trained - start, rng), truth)
                accuracy, gain, old = hits / repeats
                yield f"{name:30} {rows:5} {completions:11} {accuracy:9.3f} {gain:6.3f} {old:9.3f}"


def few_changes(rng: np.random.Generator, *design: int) -> Iterator[str]:
    """Coverage of one run's gain where few rows change: exact, by enumeration."""
    yield "One run, one completion of each row. Probability that the interval holds the truth: of reports, and of rows"
    yield "with one change in each direction added (Bonett and Price 2012)"
    yield f"{'rows':>6} {'become right':>12} {'become wrong':>12} {'reports':>7} {'added':>7}"
    for rows in (16, 100, 512):
        for right, wrong in ((0.01, 0.0), (0.02, 0.0), (0.014, 0.006), (0.02, 0.005), (0.03, 0.01), (0.03, 0.03)):
            ours = added = 0.0
            most = min(rows, int(8 + 3 * rows * (right + wrong)))
            for up in range(most + 1):
                for down in range((most if wrong else 0) + 1):
                    if up + down > rows:
                        continue
                    counts = [up, down, rows - up - down]
                    chance = stats.multinomial.pmf(counts, rows, [right, wrong, 1 - right - wrong])
                    before, after = np.zeros(rows), np.zeros(rows)
                    after[:up], before[rows - down :] = 1, 1
                    ours += chance * _holds(paired_interval(before, after, DIFFERENCES), right - wrong)
                    wider = estimate(after - before, [], DIFFERENCES).interval
                    added += chance * _holds(wider, right - wrong)
            yield f"{rows:6} {right:12.3f} {wrong:12.3f} {ours:7.3f} {added:7.3f}"


def tests(rng: np.random.Generator, repeats: int, rows: int, starts: int) -> Iterator[str]:
    """Family-wise error and power, of seven settings with three seeds each, and the coverage of their gains."""
    yield "Seven settings of three seeds, deviation over seeds 2 points where none is named. Share of repetitions with"
    heads = f"{'a false finding':>15} {'10 from the best':>16} {'from a named one':>16} {'15 gained':>9}"
    yield f"{'true accuracies':36} {heads} {'gains covered, width':>20} {'least of a setting':>18}"
    level, alike = np.full(7, START), np.full(7, 0.02)
    cases = {
        "all as the start": (level, alike),
        "all as the start, deviations 1 to 6": (level, UNEQUAL),
        "all 15 above it": (level + 0.15, alike),
        "all 15 above it, deviations 1 to 6": (level + 0.15, UNEQUAL),
        "all 15 above it, one deviation 8": (level + 0.15, ONE_WIDE),
        "six 15 above it, one seed collapsed": (np.array([COLLAPSED.mean(), *level[1:] + 0.15]), alike),
        "five 15 above it, one 5, one 25": (level + np.array([0.15] * 5 + [0.05, 0.25]), alike),
    }
    for name, (accuracies, deviations) in cases.items():
        false, power, power_named, gained = 0, [], [], []
        intervals: list[tuple[Interval, ...]] = []
        for _ in range(repeats):
            means = accuracies[:, None] + deviations[:, None] * rng.standard_normal((7, 3))
            if "collapsed" in name:
                means[0] = COLLAPSED
            start, trained = draw(rng, starts, np.clip(means, 0.001, 0.999), rows)
            figures = {str(i): trained[i] for i in range(7)}
            gains = {label: own - start.mean(0) for label, own in figures.items()}
            truth = dict(zip(figures, accuracies, strict=True)) | {"start model": START}
            comparisons = [compare_settings(figures, gains)]
            if name.startswith("five"):
                comparisons.append(compare_settings(figures, gains, named="6"))
            found = [
                [(c.verdict != 0, round(truth[c.first] - truth[c.second], 6), c.second in figures) for c in contrasts]
                for contrasts in comparisons
            ]
            intervals.append(tuple(contrast.interval for contrast in comparisons[0][:7]))
            false += any(significant and gap <= 0 for significant, gap, _ in found[0])
            power += [significant for significant, gap, pair in found[0] if pair and gap == 0.1]
            power_named += [significant for significant, gap, pair in found[-1] if pair and gap == 0.1]
            gained += [significant for significant, gap, pair in found[0] if not pair and gap == 0.15]
        cells = [f"{np.mean(of):.3f}" if of else "-" for of in (power, power_named, gained)]
        of_settings = list(zip(*intervals, strict=True))
        covered = [_share_held(own, accuracies[i] - START) for i, own in enumerate(of_settings)]
        widths = _cell(sum(of_settings, ()), 0).split()[-1]
        gains_held = f"{np.mean(covered):.3f} {widths:>5}"
        yield (
            f"{name:36} {false / repeats:15.3f} {cells[0]:>16} {cells[1]:>16} {cells[2]:>9} {gains_held:>20}"
            f" {min(covered):18.3f}"
        )


def unlike(rng: np.random.Generator, repeats: int, *design: int) -> Iterator[str]:
    """Family-wise error and power where settings spread very differently over seeds, as KLs do."""
    yield "Settings of three seeds, compared with one of them and with 0. Share of repetitions with a false finding,"
    yield "and in which the gain of the first setting is found"
    yield f"{'means':>22} {'deviations':>22} {'kind':>8} {'a false finding':>15} {'first found':>11}"
    cases = [
        ([1.0] * 5, [0.2] * 5), ([1.0] * 5, [0.05, 0.1, 0.2, 0.3, 0.5]), ([1.0] * 5, [0.01, 0.5, 0.5, 0.5, 0.5]),
        ([0.0] * 5, [0.2] * 5), ([0.0] * 3, [0.005, 0.5, 3]), ([0.06, 2, 10], [0.005, 0.5, 3]),
        ([0.06, 0.06, 1, 3, 10], [0.006, 0.006, 0.1, 0.3, 1]),
    ]  # fmt: skip
    for means, deviations in cases:
        for name, kind in (("levels", LEVELS), ("sizes", SIZES)):
            false = found = 0
            for _ in range(repeats):
                figures = {}
                for i, (mean, deviation) in enumerate(zip(means, deviations, strict=True)):
                    of_seeds = mean + deviation * rng.standard_normal((3, 1))
                    figures[str(i)] = of_seeds + 0.5 * deviation * rng.standard_normal((3, 100))
                truth = {str(i): mean for i, mean in enumerate(means)} | {"start model": 0.0}
                contrasts = compare_settings(figures, figures, named="1", kind=kind)
                false += any(one.verdict and truth[one.first] == truth[one.second] for one in contrasts)
                found += contrasts[0].verdict == 1
            sides = (" ".join(f"{value:g}" for value in of) for of in (means, deviations))
            cells = " ".join(f"{side:>22}" for side in sides)
            yield f"{cells} {name:>8} {false / repeats:15.3f} {found / repeats if any(means) else 0:11.3f}"


def plans(rng: np.random.Generator, repeats: int, rows: int, *design: int) -> Iterator[str]:
    """Power of two settings that differ as much as planned, by their test."""
    yield "Two settings. The difference that is planned to be found in 80%, points, and the share in which it is"
    yield f"{'rows':>5} {'deviation':>9} {'2 seeds':>14} {'3 seeds':>14} {'5 seeds':>14}"
    noise = TRAINED * (1 - TRAINED) * (1 - OF_ROW) / rows
    for deviation in (0.0, 0.02, 0.04):
        cells = []
        for seeds in (2, 3, 5):
            size, found = plan_comparison(noise, deviation, seeds), 0
            for _ in range(repeats):
                means = TRAINED + np.array([[-size / 2], [size / 2]]) + deviation * rng.standard_normal((2, seeds))
                _, trained = draw(rng, 0, np.clip(means, 0.001, 0.999), rows)
                found += compare_settings({"0": trained[0], "1": trained[1]}, {}, named="0")[0].verdict != 0
            cells.append(f"{100 * size:6.1f} {found / repeats:7.3f}")
        yield f"{rows:5} {100 * deviation:9.0f} {' '.join(cells)}"


def plan_comparison(noise: float, spread: float, seeds: int) -> float:
    """The smallest true difference of two settings that is found in 80%, if no row is harder for one of them, and rows
    are many.

    Args:
        noise: variance of one run's mean over `rows` that comes from sampling.
        spread: standard deviation of the seeds' own effect.
        seeds: of each setting, at least two.
    """
    error = math.sqrt(2 * (spread**2 + noise) / seeds)
    # The spreads that the two settings' seeds may show, and what the test takes from them (crossed.py).
    df, shown = seeds - 1, (np.arange(QUANTILES) + 0.5) / QUANTILES
    seen = stats.chi2.ppf(shown, df) / df * (spread**2 + noise) / seeds
    both = seen + seen[:, None]
    of_seeds = stats.t.ppf(0.975, df * both**2 / (seen**2 + seen[:, None] ** 2)) * np.sqrt(both)
    of_sampling = ndtri(0.975) * math.sqrt(2 * noise / seeds)
    half = np.maximum(of_seeds, of_sampling)
    size = brentq(lambda size: stats.norm.cdf((size - half) / error).mean() - POWER, 0, half.max() + 10 * error)
    return float(size)


def collapses(rng: np.random.Generator, repeats: int, *design: int) -> Iterator[str]:
    """How often a run is called collapsed without a reason, and how often with one."""
    yield "Seven settings. Share of repetitions in which a run is called collapsed: by mistake, and one of 1.6% beside"
    yield "seeds of 42.9%"
    yield f"{'accuracy':>8} {'deviations':>10} {'rows':>5} {'2 seeds':>12} {'3 seeds':>12} {'5 seeds':>12}"
    cases = [(0.02, "0", np.zeros(7), 100), (0.05, "0", np.zeros(7), 100), (0.1, "2", np.full(7, 0.02), 512)]
    for rows in (100, 512, 1398):
        cases += [(0.37, "0", np.zeros(7), rows), (0.37, "2", np.full(7, 0.02), rows)]
        cases += [(0.37, "1 to 6", UNEQUAL, rows), (0.37, "2, one 8", ONE_WIDE, rows)]
    for accuracy, name, deviations, rows in cases:
        cells = []
        for seeds in (2, 3, 5):
            called = found = 0
            for _ in range(repeats):
                means = accuracy + deviations[:, None] * rng.standard_normal((7, seeds))
                called += bool(_call(rng, np.clip(means, 0, 1), rows))
                means[0] = [*[0.429] * (seeds - 1), 0.016]
                found += ("0", seeds - 1) in _call(rng, np.clip(means, 0, 1), rows)
            cells.append(f"{called / repeats:6.3f} {found / repeats:5.3f}")
        yield f"{100 * accuracy:7.0f}% {name:>10} {rows:5} {' '.join(cells)}"


def _call(rng: np.random.Generator, means: np.ndarray, rows: int) -> list[tuple[str, int]]:
    """The runs called collapsed, with the largest standard error of one run, as in a report."""
    right = rng.binomial(rows, means)
    error = standard_error(wilson(right.flat[np.abs(right - rows / 2).argmin()], rows))
    return find_collapsed({str(i): own / rows for i, own in enumerate(right)}, error)


def bootstrap_rows(gains: np.ndarray, rng: np.random.Generator) -> Interval:
    """The percentile bootstrap over rows."""
    means = gains[rng.integers(len(gains), size=(RESAMPLES, len(gains)))].mean(1)
    low, high = np.quantile(means, [0.025, 0.975])
    return {"value": float(gains.mean()), "low": float(low), "high": float(high)}


def _cell(intervals: tuple[Interval, ...], truth: float) -> str:
    widths = [100 * (interval["high"] - interval["low"]) for interval in intervals]
    return f"{_share_held(intervals, truth):7.3f} {np.median(widths):6.1f}"


def _share_held(intervals: Sequence[Interval], truth: float) -> float:
    return float(np.mean([_holds(interval, truth) for interval in intervals]))


def _holds(interval: Interval, truth: float) -> bool:
    return interval["low"] <= truth <= interval["high"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=1000, help="of each line; the standard error is 0.7 points")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", type=int, default=512, help="held-out rows, but of one run's table")
    parser.add_argument("--starts", type=int, default=1, help="passes of the start model")
    tables = {
        table.__name__: table
        for table in (over_seeds, few_seeds, of_one_run, few_changes, tests, unlike, plans, collapses)
    }
    parser.add_argument("--only", choices=tables)
    args = parser.parse_args()
    for table in [tables[args.only]] if args.only else tables.values():
        repeats = args.repeats // 2 if table is tests else args.repeats
        for line in table(np.random.default_rng(args.seed), repeats, args.rows, args.starts):
            print(line, flush=True)
        print()


if __name__ == "__main__":
    main()
