"""Draws and grades completions of training prompts into a run folder.

sample(cfg, Path("outputs/samples/x"), model, tokenizer)
"""

from dataclasses import asdict, replace
from pathlib import Path

from omegaconf import OmegaConf
from transformers import PreTrainedTokenizerBase

from rlhf_exp import processes
from rlhf_exp.config.schema import Config
from rlhf_exp.evaluation.cache import sample_cached
from rlhf_exp.evaluation.completions import EvalSet, judge
from rlhf_exp.evaluation.evaluators import Measured, write_measured
from rlhf_exp.evaluation.metrics import summarise
from rlhf_exp.models.source import ModelSource
from rlhf_exp.runs.files import write_json, write_text
from rlhf_exp.runs.folder import RunFolder
from rlhf_exp.runs.records import read_record
from rlhf_exp.tasks import TaskRows, draw_prompts
from rlhf_exp.tasks.prompts import check_budget, check_vocabulary
from rlhf_exp.tasks.sampled import count_samples


def sample(cfg: Config, folder: Path, model: ModelSource, tokenizer: PreTrainedTokenizerBase) -> Path:
    """Sample into `folder`, from `cfg.seed`, and return it; a finished one is not changed.

    Raises:
        ConfigError: too few prompts, or prompts that the model cannot read.
    """
    if processes.on_main(read_record, folder).status == "finished":
        return folder
    k = cfg.task.sampling.completions
    cfg = replace(cfg, eval=replace(cfg.eval, completions=k, start_completions=k, greedy=False, seed=cfg.seed))
    name = cfg.task.name
    task = TaskRows(name, [], draw_prompts(cfg, tokenizer, cfg.task.sampling.rows), cfg.task.build_grader())
    check_vocabulary(tokenizer, task)
    check_budget(cfg, tokenizer, task.eval)
    of = EvalSet.of(cfg, task, tokenizer)
    of = replace(of, draws=replace(of.draws, key=("sample", cfg.seed)))
    facts = {"algo": "sample", "task": name, "model": model.name, "seed": cfg.seed, "max_tokens": cfg.max_tokens}
    out = RunFolder.create(folder, facts)
    try:
        if processes.is_main():
            (folder / ".hydra").mkdir(exist_ok=True)
        write_text(folder / ".hydra" / "config.yaml", OmegaConf.to_yaml(OmegaConf.create(asdict(cfg))))
        with out.phase("sample"):
            sampled, out.record.baseline_cached = sample_cached(of, model, cfg.eval.cache_dir, "sample")
            completions = judge(of, sampled)
        section = {"split": "train", **summarise(completions, cfg.max_tokens)}
        write_measured(folder, {"baseline": Measured(section, completions)})
        counts = count_samples(completions)
        write_json(folder / "data.json", {"samples": counts})
    except BaseException as error:
        out.finish("stopped" if isinstance(error, KeyboardInterrupt) else "failed", f"{type(error).__name__}: {error}")
        raise
    out.finish("finished")
    processes.barrier()  # the others read what rank 0 has written
    return folder
