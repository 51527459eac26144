"""One process against several, per algorithm and engine: do they sample, learn and measure the same?

    python bench/processes.py                       # every algorithm with DDP on two processes, about five minutes
    python bench/processes.py --only grpo,ppo_shared --processes 4
    python bench/processes.py --only sft,grpo --nodes 2      # two agents of torchrun on this machine
    python bench/processes.py --only sft --scale fsdp2 --entry tests/learning/on_cpu.py

Both have the same number of rows per step, and run as a sweep over the algorithms. For each: the largest difference of
the loss, of the gradient's norm and of any other logged figure, relative to the larger of 1 and the figure; how many of
the held-out completions differ, before and after training; and the largest difference of a figure in
evaluation.json. All are 0 but for the rounding of sums in another order, except where docs/processes.md says so.
"""

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from omegaconf import OmegaConf

SMALL = ["device=cpu", "device.threads=1", "eval.cache_dir=null", "eval.rows=32", "eval.batch_size=8", "max_tokens=24",
         "monitor.every_steps=1", "keep_checkpoints=true"]  # fmt: skip
TRAINED = ["algo.args.max_steps=4", "algo.args.warmup_steps=0", "algo.args.save_steps=2", "algo.args.logging_steps=1",
           "algo.args.gradient_accumulation_steps=1"]  # fmt: skip
GIVEN, SAMPLED = ["task.sampling.rows=96", "task.sampling.completions=8"], ["algo.args.steps_per_generation=1"]
ROLLOUTS = [*SAMPLED, "algo.args.num_generations=4"]
EPOCHS = [*SAMPLED, "algo.args.num_iterations=2"]


class Case(NamedTuple):
    """What an experiment chooses, the values that it sets, and its rows per step; without rows nothing is trained."""

    groups: dict[str, str]
    values: list[str]
    rows: int


CASES = {
    "sft": Case({"algo": "sft"}, [], 16),
    "reward_model": Case({"algo": "reward_model"}, GIVEN, 8),
    "dpo": Case({"algo": "dpo"}, GIVEN, 8),
    "kto": Case({"algo": "kto"}, GIVEN, 8),
    "grpo": Case({"algo": "grpo"}, ROLLOUTS, 32),
    "rloo": Case({"algo": "rloo"}, ROLLOUTS, 32),
    "ppo_shared": Case({"algo": "ppo"}, [*EPOCHS, "algo.args.critic_warmup_steps=1"], 16),
    "ppo_separate": Case({"algo": "ppo"}, [*EPOCHS, "algo.args.critic=separate"], 16),
    "none": Case({"algo": "none"}, [], 0),
    "grpo_lora": Case({"algo": "grpo", "peft": "lora"}, ROLLOUTS, 32),
    "sft_qlora": Case({"algo": "sft", "peft": "qlora", "model": "tiny_qwen3"}, [], 16),
}

ENTRY = ("-m", "rlhf_exp")
NO_OUTPUT = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
TIMES = ("time_s", "step_time", "step_seconds", "seconds", "runtime", "per_second", "cached")


def main() -> None:
    """Print a line per case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(CASES), help="cases, by commas")
    parser.add_argument("--scale", default="ddp")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--nodes", type=int, default=1, help="torchrun's agents, which divide the processes")
    parser.add_argument("--entry", help="a script in place of -m rlhf_exp, such as tests/learning/on_cpu.py")
    args = parser.parse_args()
    entry = (str(Path(args.entry).resolve()),) if args.entry else ENTRY
    names, folder = args.only.split(","), Path(tempfile.mkdtemp())
    where = f"{args.processes} on {args.nodes} node{'s' * (args.nodes > 1)}"
    print(f"one process against {where} with scale={args.scale}, 4 steps of the shipped model")
    sides = [sweep(folder, names, 1, "none"), sweep(folder, names, args.processes, args.scale, entry, args.nodes)]
    heads = ("algorithm", "loss", "grad norm", "others", "largest of", "completions", "evaluation", "largest of")
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for name in names:
        print("| " + " | ".join([name, *describe(*(side[name] for side in sides))]) + " |")
    shutil.rmtree(folder)


def sweep(
    folder: Path, names: list[str], count: int, scale: str, entry: tuple[str, ...] = ENTRY, nodes: int = 1
) -> dict[str, Path]:
    """Run the cases one after the other in one launch; returns the run folder of each. `entry`: what Python is told to
    start. `nodes`: agents that divide the processes.

    Raises:
        SystemExit: a run failed.
    """
    here = folder / f"{scale}_{count}"
    (here / "experiment").mkdir(parents=True)
    for name in names:
        write_experiment(here / "experiment" / f"{name}.yaml", CASES[name], count)
    chosen = ["-m", f"-cd={here}", f"experiment={','.join(names)}", f"scale={scale}", *SMALL]
    done = launch(chosen, here / "runs", count, entry, nodes)
    if done.returncode:
        raise SystemExit(f"{done.stdout}\n{done.stderr}")
    jobs = sorted(record.parent for record in (here / "runs").glob("*/run.json"))  # their names begin with a number
    return dict(zip(names, jobs, strict=True))


def write_experiment(path: Path, case: Case, count: int) -> None:
    """A file of conf/experiment, with the case's rows divided among the processes."""
    values = ["task.baselines=false", *case.values]
    values += [*TRAINED, f"algo.args.per_device_train_batch_size={case.rows // count}"] if case.rows else []
    chosen = OmegaConf.create({"defaults": [{f"override /{group}": option} for group, option in case.groups.items()]})
    content = OmegaConf.merge(chosen, OmegaConf.from_dotlist(values))
    path.write_text("# @package _global_\n" + OmegaConf.to_yaml(content))


def launch(
    arguments: list[str], folder: Path, count: int, entry: tuple[str, ...] = ENTRY, nodes: int = 1
) -> subprocess.CompletedProcess:
    """`python -m rlhf_exp`, by torchrun for several processes; the output of the first node's agent is kept. Each of
    several nodes is an agent on this machine, with its part of the processes."""
    program = [*entry, *arguments, f"output_dir={folder}"]
    agents = [["-m", "torch.distributed.run", *agent, *program] for agent in list_agents(count, nodes)]
    commands = [[sys.executable, *agent] for agent in (agents if count > 1 else [program])]
    given = {"env": os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}, "stdin": subprocess.DEVNULL}
    others = [subprocess.Popen(command, **given, **NO_OUTPUT) for command in commands[1:]]
    done = subprocess.run(commands[0], **given, capture_output=True, text=True)
    for other in others:
        done.returncode = done.returncode or other.wait()
    return done


def list_agents(count: int, nodes: int) -> list[list[str]]:
    """torchrun's options on each node."""
    if nodes == 1:
        return [["--standalone", f"--nproc_per_node={count}"]]
    with socket.create_server(("127.0.0.1", 0)) as server:
        meeting = f"127.0.0.1:{server.getsockname()[1]}"
    options = [f"--nnodes={nodes}", f"--nproc_per_node={count // nodes}", "--rdzv_backend=c10d", "--rdzv_id=bench"]
    return [[*options, f"--rdzv_endpoint={meeting}", f"--node_rank={rank}"] for rank in range(nodes)]


class Compared(NamedTuple):
    """The differences of logged figures by name@step and of those in evaluation.json, relative to the larger of 1 and
    the figure; and how many completions there are, and how many differ."""

    logged: dict[str, float]
    evaluated: dict[str, float]
    completions: int
    differing: int


def compare(one: Path, other: Path) -> Compared:
    """Two run folders."""
    steps = [read_lines(folder / "metrics.jsonl") for folder in (one, other)]
    logged = measure(*({f"{name}@{row['step']}": row[name] for row in rows for name in row} for rows in steps))
    samples = [read_lines(folder / "samples.jsonl") for folder in (one, other)]
    texts = [[(s["which"], s["id"], s["completion"]) for s in side] for side in samples]
    evaluated = measure(*(spread(json.loads((folder / "evaluation.json").read_text())) for folder in (one, other)))
    return Compared(logged, evaluated, len(texts[0]), sum(a != b for a, b in zip(*texts, strict=True)))


def describe(one: Path, other: Path) -> list[str]:
    """The cells of a line."""
    found = compare(one, other)
    by_kind = [{k: v for k, v in found.logged.items() if k.startswith(name)} for name in ("loss@", "grad_norm@")]
    rest = {k: v for k, v in found.logged.items() if not k.startswith(("loss@", "grad_norm@"))}
    cells = [f"{max(kind.values()):.1e}" if kind else "-" for kind in (*by_kind, rest)]
    return [
        *cells,
        name_largest(rest),
        f"{found.differing} of {found.completions}" if found.completions else "-",
        f"{max(found.evaluated.values()):.1e}",
        name_largest(found.evaluated),
    ]


def name_largest(gaps: dict[str, float]) -> str:
    """The figure with the largest difference."""
    name = max(gaps, key=gaps.__getitem__, default="-")
    return name if gaps.get(name) else "-"


def spread(values: object, path: str = "") -> dict[str, object]:
    """Each value of nested mappings and lists by the path to it."""
    if not isinstance(values, dict | list):
        return {path: values}
    items = values.items() if isinstance(values, dict) else enumerate(values)
    return {end: value for name, item in items for end, value in spread(item, f"{path}.{name}".lstrip(".")).items()}


def measure(one: dict, other: dict) -> dict[str, float]:
    """The difference of each figure that both have, relative to the larger of 1 and the figure; infinite if only one
    side has it, or if it is another text."""
    gaps = {}
    for name in one.keys() | other.keys():
        a, b = one.get(name), other.get(name)
        if any(part in name for part in TIMES) or a is b:
            continue
        if isinstance(a, int | float) and isinstance(b, int | float):
            gaps[name] = abs(a - b) / max(1.0, abs(a)) if a == a or b == b else 0.0
        else:
            gaps[name] = 0.0 if a == b else float("inf")
    return gaps


def read_lines(path: Path) -> list[dict]:
    """The objects of a jsonl file; none if there is no file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


if __name__ == "__main__":
    main()
