"""Audits the graders of all data sets of reasoning-gym: what do they pay for right, broken and constant answers?

    python -m bench.graders > docs/results/graders.md        # needs reasoning-gym; 15 minutes on two busy cores

Each data set is in a process of its own with Python's hash seed 0: TRAIN rows, of which the best constant is chosen,
and at most ROWS more, on which everything is measured (fewer if they are not made within MAKE_S). Answers are passed as
they would stand between the tags. A grader evaluates an answer if Python's audit hook sees code with a name of it run.
"""

import contextlib
import io
import json
import os
import random
import resource
import signal
import statistics
import subprocess
import sys
import textwrap
import time
import warnings
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from types import CodeType
from typing import Any

TRAIN, ROWS, MAKE_S, GRADE_S, MEMORY_BYTES = 100, 200, 60.0, 5.0, 6 << 30
MARK = "zqmark"
"""No answer to anything; as a name in code it shows that an answer was evaluated."""
CONSTANTS = (
    "0",
    "1",
    "2",
    "-1",
    "True",
    "False",
    "true",
    "false",
    "yes",
    "no",
    "Yes",
    "No",
    "A",
    "B",
    "[]",
    "{}",
    "None",
)
TEMPLATE = "<answer></answer>"
COMMAND = "python -m bench.graders > docs/results/graders.md"


DESIGN = (
    "Some of these pay by design: a corrupted answer can be another right one, where the grader checks a property."
    " [An example](../../examples/reasoning_gym/README.md) grades each answer in a process with limits, fixes hash seed"
    " and Python's random numbers, counts errors as failed, and gives an empty answer nothing."
)
METHOD = (
    f"Each data set has its default options and seed 0. Rows: {TRAIN} to choose the best of {len(CONSTANTS) + 1}"
    f" constants (the commonest gold answer is one), at most {ROWS} others to measure, fewer if making all takes over"
    f" {MAKE_S:.0f} s; a share of 200 rows is exact to 0.07 at most (95%). The empty template is `{TEMPLATE}`. All"
    " grades were computed twice. Times are of two busy cores. `--figures FILE` writes every figure of every data set."
)


def main() -> None:
    parser = ArgumentParser()
    parser.add_argument("--only", default="", help="data sets, with commas between")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--figures", type=Path, help="a file that keeps what was measured; if it is there it is read")
    parser.add_argument("--in-process", choices=["audit", "hash"], help="what a process of its own does")
    args = parser.parse_args()
    from reasoning_gym.factory import DATASETS

    names = args.only.split(",") if args.only else sorted(set(DATASETS) - {"composite"})
    if args.in_process:
        print(json.dumps(audit(names[0]) if args.in_process == "audit" else hash_rows(names)))
    elif args.figures and args.figures.exists():
        print(write_page(json.loads(args.figures.read_text())))
    else:
        found = measure(names, args.jobs)
        if args.figures:
            args.figures.write_text(json.dumps(found))
        print(write_page(found))


def measure(names: list[str], jobs: int) -> dict[str, dict[str, Any]]:
    """The figures of each data set by `audit`, each in a process of its own, and whether another hash seed gives the
    same rows."""
    with ThreadPoolExecutor(jobs) as pool:
        hashes = [pool.submit(run_self, "hash", ",".join(names), seed) for seed in (0, 1, 0)]
        found = dict(zip(names, pool.map(lambda name: run_self("audit", name, 0), names), strict=True))
    first, other, again = (future.result() for future in hashes)
    for name in names:
        found[name] |= {"same_rows": first.get(name) == other.get(name), "repeats": first.get(name) == again.get(name)}
    return found


def run_self(what: str, names: str, hash_seed: int) -> dict[str, Any]:
    env = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "bench.graders", "--in-process", what, "--only", names]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    print(f"{what} {names[:40]}: status {done.returncode}", file=sys.stderr, flush=True)
    if done.returncode == 0:
        return json.loads(done.stdout.splitlines()[-1])
    return {"failed": (done.stderr.splitlines() or [f"ended with status {done.returncode}"])[-1]}


def hash_rows(names: list[str]) -> dict[str, str]:
    """A hash of the first rows of each data set."""
    rows = {name: [(row["question"], row["answer"]) for row in make_rows(name, 5)[0]] for name in names}
    return {name: blake2b(repr(found).encode()).hexdigest() for name, found in rows.items()}


def make_rows(name: str, n: int) -> tuple[list[dict[str, Any]], Any]:
    from reasoning_gym.factory import create_dataset

    data, rows, start = create_dataset(name, seed=0, size=n), list[dict[str, Any]](), time.monotonic()
    with contextlib.redirect_stdout(io.StringIO()):
        while len(rows) < n and time.monotonic() - start < MAKE_S:
            rows.append(data[len(rows)])
    return rows, data


def audit(name: str) -> dict[str, Any]:
    """The figures of one data set: counts of full marks and mean scores over the measured rows."""
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    make_rows(name, 1)  # imports and caches
    start = time.monotonic()
    rows, data = make_rows(name, TRAIN + ROWS)
    row_ms = (time.monotonic() - start) * 1e3 / len(rows)
    train, held = rows[: len(rows) // 3], rows[len(rows) // 3 :]
    grader, rng = Grader(data.score_answer), random.Random(0)
    gold = [row["answer"] for row in train if row["answer"] is not None]
    common = Counter(gold).most_common(1)[0][0] if gold else ""
    constants = {**{repr(text): text for text in CONSTANTS}, "the commonest gold answer": common}
    best = max(constants, key=lambda label: sum(grader(constants[label], row) for row in train))
    others = [held[(i + 1) % len(held)]["answer"] for i in range(len(held))]
    probes: dict[str, list[tuple[str, dict]]] = {
        "gold": [(row["answer"], row) for row in held if row["answer"] is not None],
        "corrupted": [(corrupt(row["answer"], rng), row) for row in held if row["answer"]],
        "other": [(other, row) for other, row in zip(others, held, strict=True) if other not in (None, row["answer"])],
        "empty": [("", row) for row in held],
        "any text": [(MARK, row) for row in held],
        "prompt": [(row["question"], row) for row in held],
        "template": [(TEMPLATE, row) for row in held],
        "constant": [(constants[best], row) for row in held],
    }
    first = {probe: grader.grade_all(pairs) for probe, pairs in probes.items()}
    again = {probe: grader.grade_all(pairs) for probe, pairs in probes.items()}
    scores = {
        probe: [sum(x >= 1 for x in found), len(found), statistics.fmean(found or [0])]
        for probe, found in first.items()
    }
    changed = [a != b for probe in first for a, b in zip(first[probe], again[probe], strict=False)]
    return {
        "scores": scores,
        "best": best,
        "changed": sum(changed),
        "rows": len(rows),
        "distinct": len({row["question"] for row in rows}),
        "row_ms": row_ms,
        "evaluates": evaluates(data, held[:3]),
        "errors": dict(grader.errors),
        "calls": len(grader.times_ms),
        "ms": statistics.median(grader.times_ms),
        "slowest_ms": max(grader.times_ms),
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
    }


class Grader:
    """Scores answers, counts the errors of the data set's grader as 0, and keeps the time of each call."""

    def __init__(self, score: Callable[[str, dict], float]) -> None:
        self.score, self.errors, self.times_ms = score, Counter[str](), list[float]()

    def __call__(self, answer: str, row: dict) -> float:
        def ring(number: int, frame: Any) -> None:
            raise TimeoutError

        signal.signal(signal.SIGALRM, ring)
        start = time.perf_counter()
        signal.setitimer(signal.ITIMER_REAL, GRADE_S)
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                return float(self.score(answer, row))
        except Exception as error:
            self.errors[type(error).__name__] += 1
            return 0.0
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            self.times_ms.append((time.perf_counter() - start) * 1e3)

    def grade_all(self, pairs: list[tuple[str, dict]]) -> list[float]:
        """The scores of the first pairs, as many as are graded within MAKE_S / 4."""
        start, scores = time.monotonic(), list[float]()
        for pair in pairs:
            if time.monotonic() - start < MAKE_S / 4:
                scores.append(self(*pair))
        return scores


def corrupt(answer: str, rng: random.Random) -> str:
    """The answer with one letter or digit replaced by another of its kind."""
    places = [i for i, sign in enumerate(answer) if sign.isalnum()] or [0]
    i = rng.choice(places)
    kind = (
        "0123456789"
        if answer[i].isdigit()
        else "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
        if answer[i].isupper()
        else "abcdefghijklmnopqrstuvwxyz"
    )
    return answer[:i] + rng.choice(kind.replace(answer[i], "")) + answer[i + 1 :]


def evaluates(data: Any, rows: list[dict]) -> bool:
    """Whether code with a name of the answer is run while it is graded."""
    seen, armed = [], True

    def names(code: CodeType) -> Iterator[str]:
        yield from (str(name) for name in (*code.co_names, *code.co_consts))

    def hook(event: str, args: tuple) -> None:
        if armed and event == "exec":
            seen.extend(name for name in names(args[0]) if MARK in name)

    sys.addaudithook(hook)
    for row in rows:
        for answer in (MARK, f"[{MARK}]", f"['{MARK}']", f"{MARK} + 1"):
            with contextlib.suppress(Exception):
                data.score_answer(answer, row)
    armed = False
    return bool(seen)


def write_page(found: dict[str, dict[str, Any]]) -> str:
    measured = {name: figures for name, figures in found.items() if "scores" in figures}
    failed = [f"- {name}: {found[name]['failed']}" for name in found if name not in measured]
    return "\n".join([*write_top(measured), *(["", "Not measured:", "", *failed] if failed else [])])


def write_top(found: dict[str, dict[str, Any]]) -> list[str]:
    def pick(test: Callable[[dict[str, Any]], bool]) -> str:
        names = [name for name, figures in found.items() if test(figures)]
        return f"{len(names)}: {', '.join(names)}" if names else "none"

    def full(probe: str, least: float) -> str:
        rows = {name: figures["scores"][probe] for name, figures in found.items()}
        shares = {name: k / n for name, (k, n, _) in rows.items() if n and k / n >= least}
        return (
            ", ".join(f"{name} {shares[name]:.2f}" for name in sorted(shares, key=lambda name: -shares[name])) or "none"
        )

    def says(label: str, text: str) -> list[str]:
        return textwrap.wrap(f"- **{label}**: {text}.", 120, subsequent_indent="  ", break_on_hyphens=False)

    def short(figures: dict[str, Any]) -> bool:
        right, n, _ = figures["scores"]["gold"]
        return right < n

    wrong = "in at least 0.1 of rows"
    return [
        "# The graders of reasoning-gym",
        "",
        f"What the graders of all {len(found)} data sets of reasoning-gym {version('reasoning-gym')} pay for right,"
        " broken and constant answers, measured by",
        "",
        "```text",
        COMMAND,
        "```",
        "",
        *says("Run the answer as Python code", pick(lambda f: f["evaluates"])),
        *says(f"Full marks for any text (`{MARK}`), share of rows", full("any text", 0.01)),
        *says("Full marks for one constant, chosen on other rows, in at least 0.3 of rows", full("constant", 0.3)),
        *says(f"Full marks for another row's answer that differs from the own, {wrong}", full("other", 0.1)),
        *says(f"Full marks for the gold answer with one character changed, {wrong}", full("corrupted", 0.1)),
        *says("Full marks for the question itself", full("prompt", 0.01)),
        *says("Full marks for an empty template", full("template", 0.01)),
        *says("Full marks for an empty answer", full("empty", 0.01)),
        *says("Points for an empty answer", pick(lambda f: f["scores"]["empty"][2] > 0)),
        *says("Gold answers without full marks", pick(short)),
        *says("No gold answers", pick(lambda f: not f["scores"]["gold"][1])),
        *says("Another grade for the same answer to the same row", pick(lambda f: f["changed"] > 0)),
        *says("Other rows with the same seeds", pick(lambda f: not f["repeats"])),
        *says("Other rows under another hash seed of Python", pick(lambda f: not f["same_rows"])),
        *says("An error instead of a grade", pick(lambda f: bool(f["errors"]))),
        *says("Over 50 ms to make a row", pick(lambda f: f["row_ms"] > 50)),
        *says("Over 1 s for the slowest grade", pick(lambda f: f["slowest_ms"] > 1000)),
        *says("Over 1 GB of memory", pick(lambda f: f["memory_mb"] > 1000)),
        "",
        *textwrap.wrap(DESIGN, 120, break_on_hyphens=False),
        "",
        *textwrap.wrap(METHOD, 120, break_on_hyphens=False),
    ]  # fmt: skip


if __name__ == "__main__":
    main()
