"""Measures how fast the command line answers `--help` and refuses mistakes, as a ratio to `python -c "import hydra"`.

    python bench/startup.py --repeats 10

Each call is a process of its own; the commands take turns. Prints the median time and the median ratio of pairs.
"""

import argparse
import statistics
import subprocess
import sys
import time

RLHF_EXP = ["-m", "rlhf_exp"]
COMMANDS = {
    "--help": [*RLHF_EXP, "--help"],
    "leraning_rate=1": [*RLHF_EXP, "leraning_rate=1"],
    "max_tokens=0": [*RLHF_EXP, "max_tokens=0"],
    "algo=dpo +algo.args.bta=1": [*RLHF_EXP, "algo=dpo", "+algo.args.bta=1"],
}
BASELINE = ["-c", "import hydra"]


def main() -> None:
    parser = argparse.ArgumentParser(description="Startup time against `import hydra`.")
    parser.add_argument("--repeats", type=int, default=10)
    repeats = parser.parse_args().repeats
    baseline, times_s = [], {name: [] for name in COMMANDS}
    for _ in range(repeats):
        baseline.append(time_command(BASELINE))
        for name, arguments in COMMANDS.items():
            times_s[name].append(time_command(arguments))
    print_spread("import hydra, s", baseline)
    for name, seconds in times_s.items():
        print_spread(f"{name}, s", seconds)
        print_spread(f"{name}, ratio", [ours / hydra for ours, hydra in zip(seconds, baseline, strict=True)])


def time_command(arguments: list[str]) -> float:
    """Seconds of one fresh Python process."""
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], capture_output=True, check=False)
    return time.perf_counter() - start


def print_spread(name: str, values: list[float]) -> None:
    low, middle, high = min(values), statistics.median(values), max(values)
    print(f"{name}: median {middle:.2f} (min {low:.2f}, max {high:.2f}, n {len(values)})")


if __name__ == "__main__":
    main()
