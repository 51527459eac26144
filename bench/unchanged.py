"""Two checkouts of this project: do they train, draw, measure and grade the same, to the last bit?

    git worktree add /tmp/before HEAD~20
    python bench/unchanged.py /tmp/before .                   # every case, about fifteen minutes on two cores
    python bench/unchanged.py /tmp/before . --only grpo,sft --data ../shared/data

After code was moved or thinned, nothing that is computed may differ. Each case is one short run by each checkout, on
this machine. A line says of how many values the two differ: weights (tensors of model/), hashes of the rows and weights
that run.json records, logged figures, figures of evaluation.json, and the lines of samples.jsonl and
preferences.jsonl. Times are left out, and so are the sampling baselines. With `--data`, a folder that has
gsm8k/train.jsonl and gsm8k/test.jsonl, each of its solutions is also graded, against its own answer and its
neighbour's, and so are the runs' completions of Countdown.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Any

from processes import TIMES, read_lines, spread
from safetensors import safe_open

SMALL = ["device=cpu", "device.threads=1", "eval.cache_dir=null"]
MEASURED = ["eval.rows=24", "eval.completions=2", "eval.start_completions=4", "eval.greedy=true", "eval.batch_size=8",
            "task.baselines=false"]  # fmt: skip
STEPS = ["max_tokens=24", "monitor.every_steps=1", "++algo.args.max_steps=4", "++algo.args.warmup_steps=0",
         "++algo.args.save_steps=2", "++algo.args.logging_steps=1",
         "++algo.args.gradient_accumulation_steps=1"]  # fmt: skip
TRAINED = [*MEASURED, *STEPS]
SAMPLED = [*TRAINED, "++algo.args.steps_per_generation=1"]
GROUPS = [*SAMPLED, "++algo.args.num_generations=4", "++algo.args.per_device_train_batch_size=32"]
EPOCHS = [*SAMPLED, "++algo.args.num_iterations=2", "++algo.args.per_device_train_batch_size=16"]
PAIRS = [*STEPS, "task.sampling.rows=96", "task.sampling.completions=8", "++algo.args.per_device_train_batch_size=8"]
ONE_STEP = ["++algo.args.max_steps=1", "++algo.args.warmup_steps=0", "eval.rows=null", "eval.most_rows=8"]

CASES = {
    "grpo": ["algo=grpo", *GROUPS, "eval.every=2", "eval.every_rows=16", "eval.best=true"],
    "grpo_top_p": ["algo=grpo", *GROUPS, "eval.top_p=0.9"],
    "hybrid": ["algo=grpo", "loss_type=hybrid", *GROUPS],
    "ppo_shared": ["algo=ppo", *EPOCHS, "algo.args.critic_warmup_steps=1"],
    "ppo_separate": ["algo=ppo", *EPOCHS, "algo.args.critic=separate"],
    "rloo": ["algo=rloo", *GROUPS],
    "sft": ["algo=sft", *TRAINED, "++algo.args.per_device_train_batch_size=16"],
    "dpo": ["algo=dpo", *MEASURED, *PAIRS],
    "kto": ["algo=kto", *MEASURED, *PAIRS],
    "reward_model": ["algo=reward_model", "task.baselines=false", *PAIRS],
    "grpo_lora": ["algo=grpo", "peft=lora", *GROUPS],
    "none": ["algo=none", *MEASURED, "max_tokens=24"],
    **{
        name: [f"experiment={name}_tiny", *ONE_STEP]
        for name in ("brevity_lr_1e-5", "gsm8k_grpo", "gsm8k_ppo", "countdown_qwen3")
        + ("hh_rlhf_gpt2_dpo", "hh_rlhf_gpt2_reward_model")
    },
}

GRADE = """
import json, sys
from rlhf_exp.rewards import countdown, gsm8k
for line in sys.stdin:
    kind, completion, *rest = json.loads(line)
    found = (gsm8k if kind == "gsm8k" else countdown).grade(completion, *rest)
    print(json.dumps([found.outcome, found.score, str(found.extracted)]))
"""


def main() -> None:
    """Print a line per case; the exit status says whether anything differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--only", default=",".join(CASES), help="cases, by commas")
    parser.add_argument("--shared", action="store_true", help="compare only what both sides have; a new figure is none")
    parser.add_argument("--data", type=Path, help="a folder with gsm8k/train.jsonl and gsm8k/test.jsonl")
    parser.add_argument("--out", type=Path, help="keep the runs here; those of BEFORE that are there are not repeated")
    args = parser.parse_args()
    out = args.out or Path(tempfile.mkdtemp())
    sides = {"before": args.before.resolve(), "after": args.after.resolve()}
    print("| case | values | differ | such as |\n|---|---|---|---|")
    failed, completions = False, []
    for name in args.only.split(","):
        folders = [run(checkout, out / side / name, CASES[name]) for side, checkout in sides.items()]
        one, other = map(read_run, folders)
        if args.shared:
            one, other = (
                {place: side[place] for place in side if place in one and place in other} for side in (one, other)
            )
        failed |= report(name, one, other)
        completions += [line for line in read_lines(folders[0] / "samples.jsonl") if " > " in line["id"]]
    if args.data:
        asked = [*list_solutions(args.data), *map(ask_countdown, completions)]
        verdicts = [dict(enumerate(grade(checkout, asked))) for checkout in sides.values()]
        failed |= report("verdicts", *verdicts)
    sys.exit(failed)


def run(checkout: Path, folder: Path, overrides: list[str]) -> Path:
    """One run into `folder`, if no finished one is there.

    Raises:
        SystemExit: it failed.
    """
    record = folder / "run.json"
    if folder.parent.name == "before" and record.exists() and json.loads(record.read_text())["status"] == "finished":
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    command = [sys.executable, "-m", "rlhf_exp", *overrides, *SMALL, f"output_dir={folder}"]
    done = subprocess.run(command, cwd=checkout, env=environment(checkout), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return folder


def environment(checkout: Path) -> dict[str, str]:
    """In which Python imports the package of this checkout."""
    return os.environ | {"PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


def read_run(folder: Path) -> dict[str, Any]:
    """Everything that a run has computed, by file and place."""
    found = {f"inputs.{name}": value for name, value in json.loads((folder / "run.json").read_text())["inputs"].items()}
    for path in sorted((folder / "model").glob("*.safetensors")):
        with safe_open(path, "pt") as weights:
            for name in weights.keys():
                content = weights.get_tensor(name).contiguous().view(-1).float().numpy().tobytes()
                found[f"model/{name}"] = sha256(content).hexdigest()
    for name in ("metrics.jsonl", "validation.jsonl", "samples.jsonl", "preferences.jsonl"):
        found |= {f"{name}:{place}": value for place, value in spread(read_lines(folder / name)).items()}
    found |= spread(json.loads((folder / "evaluation.json").read_text()), "evaluation.json")
    return {place: value for place, value in found.items() if not any(part in place for part in TIMES)}


def list_solutions(data: Path) -> list[list[str]]:
    """Each solution of GSM8K with its own gold answer, and with the next row's."""
    rows = [row for name in ("train", "test") for row in read_lines(data / "gsm8k" / f"{name}.jsonl")]
    golds = [row["answer"].rpartition("#### ")[2] for row in rows]
    pairs = zip(rows, golds, [*golds[1:], golds[0]], strict=True)
    return [["gsm8k", row["answer"], gold] for row, *both in pairs for gold in both]


def ask_countdown(line: dict[str, Any]) -> list[Any]:
    """What the grader of Countdown is asked about a line of samples.jsonl, whose id is `3 7 8 > 53`."""
    numbers, _, target = line["id"].partition(" > ")
    return ["countdown", line["completion"], [int(number) for number in numbers.split()], int(target)]


def grade(checkout: Path, asked: list[list[Any]]) -> list[str]:
    """The verdict on each, by the graders of a checkout."""
    given = "\n".join(map(json.dumps, asked))
    where = {"cwd": checkout, "env": environment(checkout)}
    done = subprocess.run(
        [sys.executable, "-c", GRADE], **where, input=given, text=True, stdout=subprocess.PIPE, check=True
    )
    return done.stdout.splitlines()


def report(name: str, one: dict, other: dict) -> bool:
    """Print the line of a case; returns whether the sides differ."""
    differing = [place for place in {**one, **other} if repr(one.get(place)) != repr(other.get(place))]
    print(f"| {name} | {len({**one, **other})} | {len(differing)} | {', '.join(map(str, differing[:3]))} |", flush=True)
    return bool(differing)


if __name__ == "__main__":
    main()
