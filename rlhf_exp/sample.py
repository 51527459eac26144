"""Samples completions of a task's training prompts from the start model, to make pairs and demonstrations of.

    python -m rlhf_exp.sample task=countdown task.sampling.rows=1024 output_dir=outputs/samples/x
    python -m rlhf_exp algo=dpo task=countdown task.samples=outputs/samples/x

The folder it makes is a run folder: run.json, .hydra/config.yaml, samples.jsonl (`which` is baseline), data.json with
what there is to learn from, and evaluation.json, whose baseline is marked as of the train split. A run of dpo or
reward_model with `task.samples=self` calls `sample`; both find the completions in the cache where they are there.
"""

import sys
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from omegaconf import OmegaConf

from rlhf_exp.combinations import GRADED
from rlhf_exp.command import STOPPED, claim_output, compose_command, fail, refuse
from rlhf_exp.config import Config, ConfigError
from rlhf_exp.hub import prepare_hub
from rlhf_exp.run_folder import RunFolder, read_record, write_json, write_jsonl, write_text

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

FOLDER = "outputs/samples/${task.name}/${now:%Y-%m-%d_%H-%M-%S}"
USAGE = """\
usage: python -m rlhf_exp.sample [GROUP=OPTION ...] [KEY=VALUE ...]

Samples completions of training prompts from the start model and grades them, for `task.samples=FOLDER` to learn from.

Keys that matter here:
  task (one of {tasks}), model, model.path, peft, device, max_tokens, seed
  task.sampling.rows, task.sampling.completions (of each prompt)
  eval.temperature, eval.top_p, eval.top_k, eval.batch_size, eval.cache_dir
  output_dir (outputs/samples/TASK/TIME)

Example:
  python -m rlhf_exp.sample task=countdown task.sampling.rows=256 output_dir=outputs/samples/x
  python -m rlhf_exp algo=dpo task=countdown task.samples=outputs/samples/x
"""


def main(arguments: list[str] | None = None) -> int:
    """Run what the command line asks for; returns the exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if {"-h", "--help"} & set(arguments):
        print(USAGE.format(tasks=", ".join(GRADED)), end="")
        return 0
    folder = None
    try:
        cfg = _compose(arguments)
        prepare_hub(cfg)
        with claim_output(cfg, arguments) as cfg:
            folder = Path(cfg.output_dir)
            _sample_and_show(cfg, folder)
    except ConfigError as error:
        return refuse(error.problems, "sample")
    except KeyboardInterrupt:
        return STOPPED
    except BaseException as error:
        if folder is None:
            raise
        return fail(error, folder, "sample")
    return 0


def sample(cfg: Config, folder: Path, model_path: str, tokenizer: "PreTrainedTokenizerBase") -> Path:
    """Sample into `folder`, from `cfg.seed`, and return it; one that is finished already stays as it is.

    Raises:
        ConfigError: too few prompts, or prompts that the model cannot read.
    """
    # Here, since a mistake on the command line shows before they are imported: torch takes seconds.
    from rlhf_exp.baseline_cache import sample_start_model
    from rlhf_exp.evaluate import describe_samples
    from rlhf_exp.models.loading import name_model
    from rlhf_exp.prompts import check_budget, check_vocabulary, encode_prompts
    from rlhf_exp.sample_figures import summarise
    from rlhf_exp.tasks import Task
    from rlhf_exp.tasks.sampled import count_samples

    if _is_finished(folder):
        return folder
    cfg = replace(cfg, eval=replace(cfg.eval, completions=cfg.task.sampling.completions, greedy=False, seed=cfg.seed))
    name, module = cfg.task.name, import_module(f"rlhf_exp.tasks.{cfg.task.name}")
    task = Task(name, [], module.draw_prompts(cfg, tokenizer, cfg.task.sampling.rows), module.grade_row)
    check_vocabulary(tokenizer, task)
    check_budget(cfg, tokenizer, task.eval)
    prompt_ids = encode_prompts(tokenizer, task.eval)
    facts = {"algo": "sample", "task": name, "model": name_model(cfg), "seed": cfg.seed, "max_tokens": cfg.max_tokens}
    out = RunFolder.create(folder, facts)
    try:
        (folder / ".hydra").mkdir(exist_ok=True)
        write_text(folder / ".hydra" / "config.yaml", OmegaConf.to_yaml(OmegaConf.create(asdict(cfg))))
        with out.phase("sample"):
            held_out = sample_start_model(cfg, out, model_path, tokenizer, prompt_ids, title="sample")
            samples = describe_samples("baseline", cfg, task, tokenizer, [], held_out)
        section = {"split": "train", **summarise(samples, cfg.max_tokens, held_out)}
        write_jsonl(folder / "samples.jsonl", samples)
        write_json(folder / "data.json", {"samples": count_samples(samples)})
        write_json(folder / "evaluation.json", {"baseline": section})
    except BaseException as error:
        status = "stopped" if isinstance(error, KeyboardInterrupt) else "failed"
        out.give_up(status, f"{type(error).__name__}: {error}")
        raise
    out.finish("finished")
    return folder


def _compose(arguments: list[str]) -> Config:
    """The checked config. As for dpo: that algorithm needs no reward, and no other rows to learn from."""
    cfg = compose_command("sample", ["algo=dpo", f"output_dir={FOLDER}"], arguments)
    if cfg.task.name not in GRADED:
        fitting = " or ".join(f"task={name}" for name in GRADED)
        raise ConfigError([f"task={cfg.task.name}: its completions cannot be graded as right or wrong; use {fitting}"])
    return cfg


def _sample_and_show(cfg: Config, folder: Path) -> None:
    drawn = f"{cfg.task.sampling.rows} x {cfg.task.sampling.completions} completions"
    print(f"{drawn} for {cfg.task.name}, model {cfg.model.name}, seed {cfg.seed}: {folder}", flush=True)
    import torch
    import transformers

    from rlhf_exp.models import load_tokenizer, resolve_model
    from rlhf_exp.report.load import load_run
    from rlhf_exp.report.tables import duration, percent
    from rlhf_exp.tasks.sampled import describe_counts

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    if cfg.device.threads:
        torch.set_num_threads(cfg.device.threads)
    model_path = resolve_model(cfg, folder)
    run = load_run(sample(cfg, folder, model_path, load_tokenizer(cfg, model_path)))
    section, counts = run.evaluation["baseline"], run.facts["samples"]
    shown = [f"accuracy {percent(section['accuracy'])}"]
    shown += [f"pass@{k} {percent(found)}" for k, found in section.get("pass_at_k", {}).items() if k != "1"]
    took = duration(run.info["seconds"]["sample"]) + (", from the cache" if run.info["baseline_cached"] else "")
    print(f"{section['n']} prompts x {section['completions']} completions of at most {cfg.max_tokens} tokens: {took}")
    print(", ".join(shown))
    print(describe_counts(counts))
    print(f"learn from them with: python -m rlhf_exp algo=dpo task={cfg.task.name} task.samples={folder}")


def _is_finished(folder: Path) -> bool:
    return read_record(folder).get("status") == "finished"


if __name__ == "__main__":
    sys.exit(main())
