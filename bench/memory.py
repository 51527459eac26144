"""The memory that a dry run estimates, compared with that of runs on this computer.

    python bench/memory.py                       # nine runs of a few steps, about six minutes
    python bench/memory.py --only grpo,dpo
    python bench/memory.py --model FOLDER        # dpo and ppo on the model of a folder, such as SmolLM2-135M

For each: the peak of training above what the libraries take, measured and estimated, and their ratio. The completions'
length is the measured one, since a model with random weights seldom uses its whole budget.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import fmean

from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.trl_args import build_args
from rlhf_exp.dry_run.cost import estimate_memory
from rlhf_exp.dry_run.load import build_on_meta, load_checked_task, load_shape_and_tokenizer, measure_lengths

SHORT = ["device=cpu", "device.threads=2", "eval.rows=16", "eval.cache_dir=null", "algo.args.save_strategy=no",
         "monitor.every_steps=100"]  # fmt: skip
LARGER = ["model=tiny_untrained", "model.init.hidden_size=384", "model.init.intermediate_size=1152",
          "model.init.num_hidden_layers=6", "model.init.num_attention_heads=6", "model.init.num_key_value_heads=3",
          "model.init.head_dim=64"]  # fmt: skip
GPT2 = ["model=tiny_gpt2", "model.init.hidden_size=384", "model.init.intermediate_size=1536", "task.source=generated",
        "model.init.num_hidden_layers=6", "model.init.num_attention_heads=6"]  # fmt: skip
ROLLOUTS = [
    "algo.args.num_generations=8",
    "algo.args.per_device_train_batch_size=32",
    "algo.args.gradient_accumulation_steps=1",
]

SETTINGS = {
    "default": [],
    "grpo": [*LARGER, *ROLLOUTS],
    "checkpointing": [*LARGER, *ROLLOUTS, "algo.args.activation_checkpointing=true"],
    "lora": [*LARGER, *ROLLOUTS, "peft=lora"],
    "gpt2": [*GPT2, *ROLLOUTS, "task=gsm8k", "max_tokens=128"],
    "ppo": [*LARGER, "algo=ppo", "algo.args.per_device_train_batch_size=16", "algo.args.gradient_accumulation_steps=1"],
    "separate": [
        *LARGER,
        "algo=ppo",
        "algo.args.critic=separate",
        "algo.args.per_device_train_batch_size=16",
        "algo.args.gradient_accumulation_steps=1",
    ],
    "sft": [*LARGER, "algo=sft", "algo.args.per_device_train_batch_size=32"],
    "dpo": [*GPT2, "algo=dpo", "task=hh_rlhf", "task.train_rows=64", "algo.args.per_device_train_batch_size=16"],
}
PAIRS = ["algo=dpo", "task=hh_rlhf", "task.source=generated", "task.train_rows=16", "task.max_length=256"]
OF_MODEL = {
    "dpo": [*PAIRS, "algo.args.per_device_train_batch_size=8"],
    "ppo": ["algo=ppo", "algo.args.per_device_train_batch_size=8"],
}
"""Of the model of a folder, with one pass for each step."""
STEPS = 2


def main() -> None:
    parser = argparse.ArgumentParser(description="Estimated memory, compared with runs.")
    parser.add_argument("--only", help="settings, by commas")
    parser.add_argument("--model", help="a folder with a model, which takes the place of the settings' own")
    only, folder = (vars(parser.parse_args())[name] for name in ("only", "model"))
    if folder:
        one_pass = ["algo.args.gradient_accumulation_steps=1", f"model.path={folder}", "max_tokens=32", "eval.rows=4"]
        SETTINGS.clear()
        SETTINGS.update({name: [*overrides, *one_pass] for name, overrides in OF_MODEL.items()})
    print(f"{'setting':14} {'measured':>10} {'estimated':>10} {'ratio':>6}")
    for name in only.split(",") if only else SETTINGS:
        overrides = [*SHORT, *SETTINGS[name], f"algo.args.max_steps={STEPS}"]
        with tempfile.TemporaryDirectory() as folder:
            memory, length = run([*overrides, f"output_dir={folder}/run"], Path(folder) / "run")
            needed = estimate([*overrides, f"output_dir={folder}/other"], length)
        print(f"{name:14} {memory / 1e6:7,.0f} MB {needed / 1e6:7,.0f} MB {memory / needed:6.2f}", flush=True)


def run(overrides: list[str], folder: Path) -> tuple[float, float | None]:
    """Bytes at the peak of training above the libraries', and the mean tokens of a completion."""
    done = subprocess.run([sys.executable, "-m", "rlhf_exp", *overrides], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    record = json.loads((folder / "run.json").read_text())
    weights = sum(file.stat().st_size for file in (folder / "model").glob("model*.safetensors"))
    peaks = record["phase_memory_mb"]
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    lengths = [line["completions/mean_length"] for line in lines if "completions/mean_length" in line]
    return (peaks["train"] - peaks["load"]) * 1e6 + weights, fmean(lengths) if lengths else None


def estimate(overrides: list[str], length: float | None) -> float:
    """Bytes at the peak of training."""
    cfg, unchecked = compose_config(overrides), []
    args, (shape, tokenizer) = build_args(cfg), load_shape_and_tokenizer(cfg, unchecked)
    model, trained = build_on_meta(cfg, shape)
    lengths = measure_lengths(cfg, tokenizer, load_checked_task(cfg, tokenizer, unchecked))
    longest = lengths.longest if length is None else lengths.prompt + length
    phases = estimate_memory(cfg, args, model, trained, lengths.prompt, longest)
    return max(sum(parts.values()) for phase, parts in phases.items() if phase != "evaluation")


if __name__ == "__main__":
    main()
