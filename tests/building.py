"""A trainer of any algorithm on rows and rewards of a test's own, and models whose mistakes show."""

import json

import torch
from transformers import AutoModelForCausalLM

from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.model_shape import ASSETS
from rlhf_exp.config.trl_args import build_args
from rlhf_exp.experiment import Experiment
from rlhf_exp.models.loading import find_teacher, load_tokenizer, resolve_model
from rlhf_exp.models.untrained import build_config
from rlhf_exp.pipeline import load_set
from rlhf_exp.rewards import build_rewards
from rlhf_exp.runs.folder import RunFolder
from rlhf_exp.runs.records import RunRecord
from rlhf_exp.tasks import TaskRows, load_task
from rlhf_exp.trainers import build_trainer

UNTRAINED = ["model=tiny_untrained", "model.init.hidden_size=32", "model.init.num_hidden_layers=1"]
"""40,000 parameters."""
QUIET = ["device=cpu", "device.threads=1", "algo.args.disable_tqdm=true", "algo.args.save_strategy=no"]
ROLLOUTS_OF_8 = {
    "grpo": ["algo=grpo", "algo.args.per_device_train_batch_size=8", "algo.args.num_generations=2"],
    "rloo": ["algo=rloo", "algo.args.per_device_train_batch_size=8", "algo.args.num_generations=2"],
    "ppo": ["algo=ppo", "algo.args.per_device_train_batch_size=8", "algo.args.steps_per_generation=1"],
}
"""Each algorithm that samples and has rewards."""
DISTILL_8 = ["algo=distill", f"teacher.path={ASSETS / 'tiny'}", "algo.args.per_device_train_batch_size=8"]
"""The same of what a teacher trains."""
SHAPE = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
    "max_position_embeddings": 128, "tie_word_embeddings": True,
}  # fmt: skip


def read_jsonl(path):
    return [json.loads(line) for line in path.read_text().split("\n") if line]


def build_experiment(folder, *overrides, rows=(), reward=None):
    """What pipeline.py makes of a config, with the run in `folder`."""
    cfg = compose_config([*overrides, f"output_dir={folder}"])
    source, task = resolve_model(cfg, folder), TaskRows("t", list(rows), [], None)
    tokenizer = load_tokenizer(source)
    rewards, teacher = [reward] if reward else [], find_teacher(cfg, source, tokenizer)
    return Experiment(cfg, None, source, tokenizer, task, rewards, build_args(cfg), teacher=teacher)


def build(folder, *overrides, rows=(), reward=None):
    return build_trainer(build_experiment(folder, *overrides, rows=rows, reward=reward))


def load_experiment(folder, *overrides):
    """The same with the rows and rewards that the config names, not yet with arguments of a trainer."""
    cfg = compose_config([*overrides, "device=cpu"])
    source = resolve_model(cfg, folder)
    tokenizer = load_tokenizer(source)
    task = load_task(cfg, tokenizer)
    sets = {name: load_set(name, of, tokenizer, len(tokenizer)) for name, of in cfg.sets.items()}
    more = {"sets": sets, "teacher": find_teacher(cfg, source, tokenizer)}
    return Experiment(cfg, RunFolder(folder, RunRecord()), source, tokenizer, task, build_rewards(cfg, task), **more)


def reward_length(completions, **columns):
    return [float(len(text)) for text in completions]


def reward_length_of_7(completions, **columns):
    return [float(len(text) % 7) for text in completions]


def build_random(architecture, tokenizer, kind=AutoModelForCausalLM, seed=0, **changes):
    """A tiny model with random weights, far larger than at the start of training, so that a wrong position or context
    shows; a classifier has one label."""
    torch.manual_seed(seed)
    heads = {} if architecture == "gpt2" else {"num_key_value_heads": 2}
    config = build_config({"architecture": architecture, **SHAPE, **heads, **changes}, tokenizer)
    config.num_labels = 1
    model = kind.from_config(config)
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            parameter.data *= 20.0 if "wpe" in name else 5.0
    return model.eval()
