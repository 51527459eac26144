"""Measures what the cheapest known trick for each reward earns, and what the start model earns.

    python bench/farmers.py --split test

A trick follows the rules and never searches. If it writes an expression, that is a template over the sorted numbers
("largest + middle - smallest"): of all shapes the one that earns most on validation problems. Under any reward a
template is right on some problems by chance. Prints a table; `bound` is the most that a reward pays.
"""

import itertools
from argparse import ArgumentParser
from collections.abc import Callable
from statistics import fmean
from typing import NamedTuple

from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.schema import Config
from rlhf_exp.evaluation.completions import EvalSet, sample_rows
from rlhf_exp.graders.countdown import evaluate
from rlhf_exp.models.loading import load_policy, load_tokenizer, resolve_model
from rlhf_exp.rewards import RewardFunction, build_rewards, score_completions
from rlhf_exp.tasks import Row, TaskRows
from rlhf_exp.tasks.countdown import draw_problems

Completion = Callable[[str], str]
"""From an expression with its value, `8 * 7 - 3 = 53`, to a completion."""


class Trick(NamedTuple):
    """What the trick writes: in words, and as a function from the template's equation to a completion."""

    words: str
    write: Completion


def answer(equation: str) -> str:
    return f"<answer> {equation.partition('=')[0]} </answer>"


TRICKS = {
    "outcome": Trick("the best template as the answer", answer),
    "graduated": Trick("the best template as the answer", answer),
    "think_format": Trick("an empty thought", lambda equation: "<think></think>"),
    "length_efficiency": Trick("the best template as the answer", answer),
    "overlong": Trick("nothing", lambda equation: ""),
    "repetition": Trick("nothing", lambda equation: ""),
    "self_consistency": Trick("always the same answer", lambda equation: "<answer> 1 </answer>"),
    "brevity": Trick("nothing", lambda equation: ""),
    "random": Trick("nothing", lambda equation: ""),
    "constant": Trick("nothing", lambda equation: ""),
}
BANDS = 6
ROWS = 512
BOUNDS = {"overlong": 0.0, "repetition": 0.0, "brevity": 2.0}


def main() -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--split", default="test")
    options = parser.parse_args()
    cfg = compose()
    rows, validation = (draw_rows(cfg, split, ROWS) for split in (options.split, "validation"))
    rewards = build(cfg)
    start = score_start_model(cfg, rewards, rows)
    print("| reward | the cheapest trick | it earns | start model | bound |")
    print("|---|---|---|---|---|")
    for name, trick in TRICKS.items():
        template = choose_template(rewards[name], trick, validation)
        earned = score_trick(rewards[name], trick, template, rows)
        words = f"{trick.words}: {describe(template)}" if "template" in trick.words else trick.words
        print(f"| {name} | {words} | {earned:.3f} | {start[name]:.3f} | {BOUNDS.get(name, 1.0):.0f} |")
    print(f"\nn={len(rows)} {options.split} problems; templates chosen on {len(validation)} validation problems.")
    templates = choose_by_target(rewards["outcome"], draw_rows(cfg, "train", 2000))
    chosen = [(templates[band(row)], row) for row in rows]
    right = fmean(score_trick(rewards["outcome"], TRICKS["outcome"], t, [row]) == 1 for t, row in chosen)
    print(f"One template for each of {BANDS} bands of target / sum of the numbers, chosen on 2,000 train problems, is")
    print(f"right on {100 * right:.1f}%.")


def compose() -> Config:
    """The default job with every reward of Countdown that needs no model."""
    weights = "{" + ",".join(f"{name}:1" for name in TRICKS) + "}"
    return compose_config(["reward=none", f"+reward.weights={weights}", "max_tokens=96"])


def build(cfg: Config) -> dict[str, RewardFunction]:
    rows = TaskRows("countdown", [], [], cfg.task.build_grader())
    return {reward.__name__: reward for reward in build_rewards(cfg, rows)}


def draw_rows(cfg: Config, split: str, n: int) -> list[Row]:
    """Rows as in a run."""
    problems = draw_problems(cfg.task, cfg.task.numbers, split, n, cfg.eval.seed, distinct=True)
    return [
        {"prompt": f"use {' '.join(map(str, numbers))} make {target} .", "numbers": numbers, "target": target}
        for numbers, target in problems
    ]


def list_templates() -> list[str]:
    """Every expression shape over three numbers, {0} the largest."""
    templates = []
    for (a, b, c), (p, q) in itertools.product(itertools.permutations("012"), itertools.product("+-*/", repeat=2)):
        templates += [f"( {{{a}}} {p} {{{b}}} ) {q} {{{c}}}", f"{{{a}}} {p} ( {{{b}}} {q} {{{c}}} )"]
    return templates


def describe(template: str) -> str:
    return template.format("largest", "middle", "smallest")


def fill(template: str, numbers: list[int]) -> str:
    """The template with these numbers, followed by its value if that is an integer."""
    expression = template.format(*sorted(numbers, reverse=True))
    value = evaluate(expression, [str(number) for number in numbers]).value
    return f"{expression} = {value}" if value is not None and value == int(value) else expression


def choose_template(reward: RewardFunction, trick: Trick, rows: list[Row]) -> str:
    """The template with which the trick earns most on `rows`."""
    templates = list_templates() if "template" in trick.words else list_templates()[:1]
    return max(templates, key=lambda template: score_trick(reward, trick, template, rows))


def choose_by_target(reward: RewardFunction, rows: list[Row]) -> dict[int, str]:
    """For each band the template that earns most on the rows in it."""
    return {
        number: choose_template(reward, TRICKS["outcome"], [row for row in rows if band(row) == number])
        for number in range(BANDS)
    }


def band(row: Row) -> int:
    """The number of the target's band; the last one holds all targets from 2.5 times the sum of the numbers on."""
    return min(BANDS - 1, int(2 * row["target"] / sum(row["numbers"])))


def score_trick(reward: RewardFunction, trick: Trick, template: str, rows: list[Row]) -> float:
    """What the trick earns on average."""
    texts = [trick.write(fill(template, row["numbers"])) for row in rows]
    return score(reward, rows, texts, [[1] * len(text.split()) or [1] for text in texts])


def score(reward: RewardFunction, rows: list[Row], texts: list[str], ids: list[list[int]]) -> float:
    return fmean(score_each(reward, rows, texts, ids))


def score_each(reward: RewardFunction, rows: list[Row], texts: list[str], ids: list[list[int]]) -> list[float]:
    return [parts[reward.__name__] for parts in score_completions([reward], rows, texts, ids)]


def score_start_model(cfg: Config, rewards: dict[str, RewardFunction], rows: list[Row]) -> dict[str, float]:
    """What the start model's own completions earn."""
    source = resolve_model(cfg, None)
    tokenizer, model = load_tokenizer(source), load_policy(source)
    of = EvalSet.of(cfg, TaskRows(cfg.task.name, [], rows, None), tokenizer)
    ids = [one.ids for one in sample_rows(of, model)]
    texts = tokenizer.batch_decode(ids, skip_special_tokens=True)
    return {name: score(reward, rows, texts, ids) for name, reward in rewards.items()}


if __name__ == "__main__":
    main()
