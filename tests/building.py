"""A trainer of any algorithm on rows and rewards of a test's own."""

from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.trl_args import build_args
from rlhf_exp.experiment import Experiment
from rlhf_exp.models.loading import load_tokenizer, resolve_model
from rlhf_exp.tasks import Task
from rlhf_exp.trainers import build_trainer

UNTRAINED = ["model=tiny_untrained", "model.init.hidden_size=32", "model.init.num_hidden_layers=1"]
"""40,000 parameters."""
QUIET = ["device=cpu", "device.threads=1", "algo.args.disable_tqdm=true", "algo.args.save_strategy=no"]


def build_experiment(folder, *overrides, rows=(), reward=None):
    """What pipeline.py makes of a config, with the run in `folder`."""
    cfg = compose_config([*overrides, f"output_dir={folder}"])
    source, task = resolve_model(cfg, folder), Task("t", list(rows), [], None)
    return Experiment(cfg, None, source, load_tokenizer(source), task, [reward] if reward else [], build_args(cfg))


def build(folder, *overrides, rows=(), reward=None):
    return build_trainer(build_experiment(folder, *overrides, rows=rows, reward=reward))
