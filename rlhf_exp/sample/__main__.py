"""Samples completions of a task's training prompts from the start model, for making pairs and demonstrations.

    python -m rlhf_exp sample task=countdown task.sampling.rows=1024 output_dir=outputs/samples/x
    python -m rlhf_exp algo=dpo task=countdown task.samples=outputs/samples/x

Its folder is a run folder: run.json, .hydra/config.yaml, samples.jsonl (`which` is baseline), data.json with counts of
what can be learned from, and evaluation.json, whose baseline is of the train split. A run that learns from pairs
with `task.samples=self` calls `sample`. Both use cached completions if there are any.
"""

import sys
from dataclasses import replace

from rlhf_exp.commands import run_command
from rlhf_exp.config.hub import prepare_hub
from rlhf_exp.config.schema import TASKS
from rlhf_exp.errors import ConfigError, tell
from rlhf_exp.launch.arguments import compose_command
from rlhf_exp.runs.load import read_json
from rlhf_exp.runs.lock import claim

GRADED = tuple(name for name, keys in TASKS.items() if keys.graded)
FOLDER = "outputs/samples/${task.name}/${now:%Y-%m-%d_%H-%M-%S}"
USAGE = """\
usage: python -m rlhf_exp sample [GROUP=OPTION ...] [KEY=VALUE ...] [-cd FOLDER] [--out FOLDER]

Samples completions of training prompts from the start model and grades them, for `task.samples=FOLDER` to learn from.
Keys that matter: task (one of {tasks}), model, model.path, peft, device, max_tokens, seed, task.sampling.rows,
task.sampling.completions (of each prompt), eval.temperature, eval.top_p, eval.top_k, eval.batch_size, eval.cache_dir.

  python -m rlhf_exp sample task=countdown task.sampling.rows=256 output_dir=outputs/samples/x
  python -m rlhf_exp algo=dpo task=countdown task.samples=outputs/samples/x
"""


def main(arguments: list[str] | None = None) -> int:
    """Run what the command line asks for; returns the exit status."""
    return run_command(_work, arguments, lambda: USAGE.format(tasks=", ".join(GRADED)), "sample")


def _work(arguments: list[str]) -> None:
    cfg, is_new = compose_command("sample", ["algo=none", f"output_dir={FOLDER}"], arguments)
    task = cfg.task
    if not task.graded:
        way = f"set {', or '.join(task.graded_by)}" if task.graded_by else f"use task={' or task='.join(GRADED)}"
        raise ConfigError([f"task={task.name}: its completions cannot be graded as right or wrong; {way}"])
    prepare_hub(cfg)
    with claim(cfg.output_dir, is_new) as folder:
        drawn = f"{task.sampling.rows} x {task.sampling.completions} completions"
        tell(f"{drawn} for {task.name}, model {cfg.model.name}, seed {cfg.seed}: {folder}")
        from rlhf_exp.models.loading import load_tokenizer, resolve_model, set_up_libraries
        from rlhf_exp.sample.draw import sample
        from rlhf_exp.tasks.sampled import describe_counts

        set_up_libraries(cfg)
        cfg = replace(cfg, output_dir=str(folder))
        model = resolve_model(cfg, folder)
        sample(cfg, folder, model, load_tokenizer(model))
    tell(describe_counts(read_json(folder / "data.json")["samples"]))
    tell(f"learn from them with: python -m rlhf_exp algo=dpo task={task.name} task.samples={folder}")


if __name__ == "__main__":
    sys.exit(main())
