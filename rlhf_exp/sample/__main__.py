"""Samples completions of a task's training prompts from the start model, for making pairs and demonstrations.

    python -m rlhf_exp sample task=countdown task.sampling.rows=1024 output_dir=outputs/samples/x
    python -m rlhf_exp algo=dpo task=countdown task.samples=outputs/samples/x

Its folder is a run folder: run.json, .hydra/config.yaml, samples.jsonl (`which` is baseline), data.json with counts of
what can be learned from, and evaluation.json, whose baseline is of the train split. A run that learns from pairs
with `task.samples=self` calls `sample`. Both use cached completions if there are any.
"""

import json
import sys
from pathlib import Path

from rlhf_exp.config.hub import prepare_hub
from rlhf_exp.config.schema import TASKS, Config
from rlhf_exp.errors import ConfigError
from rlhf_exp.launch.composing import claim_output, compose_command, take_out
from rlhf_exp.launch.subcommand import run_command

GRADED = tuple(name for name, keys in TASKS.items() if keys.graded)
FOLDER = "outputs/samples/${task.name}/${now:%Y-%m-%d_%H-%M-%S}"
USAGE = """\
usage: python -m rlhf_exp sample [GROUP=OPTION ...] [KEY=VALUE ...]

Samples completions of training prompts from the start model and grades them, for `task.samples=FOLDER` to learn from.

Keys that matter here:
  -cd FOLDER (with configs of your own), task (one of {tasks}), model, model.path, peft, device, max_tokens, seed
  task.sampling.rows, task.sampling.completions (of each prompt)
  eval.temperature, eval.top_p, eval.top_k, eval.batch_size, eval.cache_dir
  --out FOLDER, or output_dir=FOLDER (outputs/samples/TASK/TIME)

Example:
  python -m rlhf_exp sample task=countdown task.sampling.rows=256 output_dir=outputs/samples/x
  python -m rlhf_exp algo=dpo task=countdown task.samples=outputs/samples/x
"""


def main(arguments: list[str] | None = None) -> int:
    """Run what the command line asks for; returns the exit status."""
    return run_command(_work, arguments, lambda: USAGE.format(tasks=", ".join(GRADED)), "sample")


def _work(arguments: list[str]) -> None:
    arguments = take_out(arguments)
    cfg = _compose(arguments)
    prepare_hub(cfg)
    with claim_output(cfg, arguments) as cfg:
        _sample_and_show(cfg, Path(cfg.output_dir))


def _compose(arguments: list[str]) -> Config:
    """The checked config, of algo=dpo, since that algorithm needs no reward and no other rows to learn from."""
    asked = compose_command("sample", ["algo=none", f"output_dir={FOLDER}"], arguments).task
    if not asked.graded:
        way = f"use {' or '.join(f'task={name}' for name in GRADED)}"
        way = f"set {', or '.join(asked.graded_by)}" if asked.graded_by else way
        raise ConfigError([f"task={asked.name}: its completions cannot be graded as right or wrong; {way}"])
    return compose_command("sample", ["algo=dpo", f"output_dir={FOLDER}"], arguments)


def _sample_and_show(cfg: Config, folder: Path) -> None:
    drawn = f"{cfg.task.sampling.rows} x {cfg.task.sampling.completions} completions"
    print(f"{drawn} for {cfg.task.name}, model {cfg.model.name}, seed {cfg.seed}: {folder}", flush=True)
    from rlhf_exp.models.loading import load_tokenizer, resolve_model, set_up_libraries
    from rlhf_exp.sample.draw import sample
    from rlhf_exp.tasks.sampled import describe_counts

    set_up_libraries(cfg)
    model = resolve_model(cfg, folder)
    sample(cfg, folder, model, load_tokenizer(model))
    print(describe_counts(json.loads((folder / "data.json").read_text(encoding="utf-8"))["samples"]))
    print(f"learn from them with: python -m rlhf_exp algo=dpo task={cfg.task.name} task.samples={folder}")


if __name__ == "__main__":
    sys.exit(main())
