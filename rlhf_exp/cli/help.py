"""Writes the text of `--help` from the names of the config files; Hydra's own help composes first, 0.3 s more."""

import re

from rlhf_exp.config import ROOT
from rlhf_exp.tasks.schema import find_keys, list_tasks

_TEXT = """\
usage: python -m rlhf_exp [GROUP=OPTION ...] [KEY=VALUE ...] [+algo.args.NAME=VALUE ...]

Composes an experiment from named parts, checks it, trains with TRL, measures it before and after on held-out
problems, and says how the run went.

Groups (* is the default):
{groups}

Keys:
  seed, max_tokens (a completion's budget, in training and evaluation), train_tokens (training ends after that many
  tokens), dry_run, output_dir, resume (a run's folder), skip_finished (finished jobs are skipped)
  run.name=NAME, run.tags=[A,B]: what you call the run, in its folder's name, in reports, `runs` and W&B
  any key of a group, such as eval.rows=1024 or model.path=ORG/NAME; `--cfg job` shows them all
  any argument of TRL's config: algo.args.beta=0.1, or with a plus if the config does not set it

Your own parts:
  -cd FOLDER    configs beside the shipped ones: FOLDER/experiment/NAME.yaml, FOLDER/model/NAME.yaml, ...
  reward.functions.NAME=FILE.py:FUNCTION of (prompts, completions, **kwargs), which may also name completion_ids and
                the columns of the rows: {columns}

Examples:
  python -m rlhf_exp algo=grpo task=countdown
  python -m rlhf_exp loss_type=dr_grpo max_tokens=64 dry_run=true
  python -m rlhf_exp -m loss_type=grpo,dr_grpo max_tokens=32,64,96
  python -m rlhf_exp -m seed=0,1,2,3 hydra/launcher=joblib    # as many at once as there are cores
  python -m rlhf_exp +reward.weights.process=0.2
  python -m rlhf_exp +reward.functions.short=FILE.py:short +reward.weights.short=0.5    # your own function
  python -m rlhf_exp task=file task.path=ROWS.jsonl 'task.prompt_template="{{question}}"' task.answer_column=answer
  python -m rlhf_exp algo=reward_model task=hh_rlhf task.source=file task.path=FILE.jsonl.gz model=tiny_gpt2
  python -m rlhf_exp experiment=hh_rlhf_gpt2_reward_model_tiny

Other commands, each with --help (python -m rlhf_exp.NAME is the same):
  python -m rlhf_exp runs [DIR...]            the runs below a folder: filtered, sorted, compared
  python -m rlhf_exp report DIR...            finished runs compared
  python -m rlhf_exp chat RUN                 prompts of your own to its model, also beside the start model
  python -m rlhf_exp describe task=hh_rlhf    what is in the data
  python -m rlhf_exp sample task=countdown    completions of the start model, to learn from with task.samples=
  python -m rlhf_exp merge ADAPTER --out OUT  an adapter and its base as one model

Studies: python -m rlhf_exp -cd sweeps -cn NAME, with NAME one of {studies}
Hydra's own flags: --hydra-help
"""


def format_help() -> str:
    """Usage, every group with its options, the keys, examples, and the other commands."""
    conf = ROOT / "conf"
    text = (conf / "config.yaml").read_text(encoding="utf-8")
    defaults = dict(re.findall(r"^  - (\w+): (\S+)", text, re.MULTILINE))
    lines = []
    for group in sorted(folder.name for folder in conf.iterdir() if folder.is_dir()):
        default = defaults[group].replace("${algo}", defaults["algo"])
        options = sorted(path.stem for path in (conf / group).glob("*.yaml"))
        shown = ", ".join(f"{option}*" if option == default else option for option in options)
        lines.append(f"  {group:<11} {shown}")
    studies = ", ".join(sorted(path.stem for path in (ROOT / "sweeps").glob("*.yaml")))
    columns = {name: ", ".join(find_keys(name).columns) for name in list_tasks()} | {"file": "all of the file's"}
    named = "; ".join(f"{name} {of_task}" for name, of_task in columns.items() if of_task)
    return _TEXT.format(groups="\n".join(lines), studies=studies, columns=named)
