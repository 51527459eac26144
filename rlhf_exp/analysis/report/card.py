"""Writes the model card of every model that a run has saved: README.md with the hub's metadata, and the run's config.

    write_cards(load_run(run_dir))            # run_dir/model, and run_dir/best-40 of a run that did not finish

They take the place of the cards that peft and TRL write, which name neither figures nor data.
"""

import json
import shlex
import shutil
from functools import partial
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCard, ModelCardData
from jinja2 import Environment
from markupsafe import Markup

from rlhf_exp.analysis.report.baselines import baseline_sentence
from rlhf_exp.analysis.report.columns import at
from rlhf_exp.analysis.report.data import fact_table
from rlhf_exp.analysis.report.page import ASSETS, TEXTS, Code, Table, escape_text, to_markdown
from rlhf_exp.analysis.report.single import describe_findings
from rlhf_exp.analysis.report.summary import best_sentence, describe_status, describe_summary, verdict
from rlhf_exp.config.hub import is_hub_id
from rlhf_exp.runs.figures import write_name
from rlhf_exp.runs.files import write_text
from rlhf_exp.runs.load import Run
from rlhf_exp.runs.settings import read_key

CARD, CONFIG = "README.md", "rlhf_exp_config.yaml"
OF_RUN = (baseline_sentence, best_sentence, describe_findings, describe_status, describe_summary, verdict)
"""What the template asks of a run."""


def write_cards(run: Run) -> None:
    """Write the card of each model that is in the run's folder.

    Raises:
        OSError: it cannot be written.
    """
    for folder in [run.path / "model", *sorted(run.path.glob("best-*"))] if run.trains else ():
        if folder.is_dir():
            _write(run, folder)


def _write(run: Run, folder: Path) -> None:
    setting = partial(read_key, run.config)
    info, repo, (model, base_id) = run.info, setting("hub.repo"), _find_base(run)
    data_ids = [setting(f"{key}.hub_id") for key in ("task", "task.of") if setting(f"{key}.source") == "hub"]
    file = folder / "adapter_config.json"
    adapter = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None
    place, scores = repo or str(folder), run.trains_scorer
    serve = ["vllm", "serve", adapter["base_model_name_or_path"] if adapter else place]
    if adapter:
        serve += ["--enable-lora", "--max-lora-rank", str(adapter["r"]), "--lora-modules", f"trained={place}"]
    # A prompt that the run has sampled on, if its rows are generated; those of a file may not be for others.
    generated = setting("task.source") == "generated" and run.samples and run.shows_texts
    settings = [[key, str(value)] for key in TEXTS["settings"] if (value := setting(key)) not in (None, [], {})]
    counts = {f"{name} rows": n for name, n in info.rows.items()}
    hashes = {f"sha256, {name}": digest for name, digest in info.inputs.items()}
    name = str(repo or f"{info.model}-{info.task}-{info.algo}").rpartition("/")[2]
    context = {
        "auto": f"Auto{'Peft' if adapter else ''}ModelFor{'SequenceClassification' if scores else 'CausalLM'}",
        "config": CONFIG,
        "base_id": base_id,
        "data": [fact_table({"task": info.task} | counts | hashes | run.facts)],
        "example": run.samples[0].prompt if generated else "...",
        "is_best": folder.name.startswith("best-"),
        "serve": shlex.join(serve),
        "settings": [Table(["setting", "value"], settings)],
    }
    env = Environment(trim_blocks=True, lstrip_blocks=True, finalize=_finalize)
    env.filters |= {"fence": _write_fence, "quote": lambda value: Markup(repr(value)), "trusted": Markup}
    env.globals |= {function.__name__: function for function in OF_RUN} | {"read": setting}
    template = env.from_string((ASSETS / "model_card.md.jinja").read_text(encoding="utf-8"))
    text = template.render(run=run, name=name, place=place, scores=scores, adapter=adapter, model=model, **context)
    tags = ["rlhf_exp", "trl", info.algo, info.task, "lora" if adapter else None]
    results = _list_results(run, data_ids) if folder.name == "model" else []
    data = ModelCardData(
        tags=[str(tag) for tag in [*tags, *write_name(info.loss_type).split(",")] if tag],
        eval_results=results or None,
        model_name=name if results else None,
        base_model=base_id,
        datasets=data_ids or None,
        library_name="peft" if adapter else "transformers",
        pipeline_tag="text-classification" if scores else "text-generation",
    )
    if (config := run.path / ".hydra" / "config.yaml").is_file():
        shutil.copyfile(config, folder / CONFIG)
    write_text(folder / CARD, str(ModelCard(f"---\n{data.to_yaml()}\n---\n\n{text}")))


def _find_base(run: Run) -> tuple[str, str | None]:
    """The model that the run started from, in words, and its id on the hub if that is known."""
    path, named = read_key(run.config, "model.path"), read_key(run.config, "hub.base_model")
    if read_key(run.config, "model.init") is not None:
        return f"random weights (model={read_key(run.config, 'model.name')})", None
    if path is None:
        return f"{read_key(run.config, 'model.name')}, which ships with rlhf_exp", named
    if "model.path" in run.info.inputs or not is_hub_id(path):
        return f"the folder {path}", named
    return path, path


def _finalize(value: Any) -> Any:
    """A value in the template: blocks as markdown, a text escaped."""
    if isinstance(value, list):
        return to_markdown(value)
    return escape_text(value) if type(value) is str else value


def _write_fence(code: str, language: str) -> Markup:
    return Markup(to_markdown([Code(code.strip("\n"), language)]))


def _list_results(run: Run, data_ids: list[str]) -> list[EvalResult]:
    """The figures after training that have an interval, as shares of 1 and nats."""
    task, n = str(run.info.task), at("trained", "n")(run.evaluation)
    results = []
    for metric, path in (("accuracy", "trained.accuracy"), ("accuracy_gain", "paired.difference"),
                         ("win_rate", "paired.win_rate"), ("kl", "trained.kl.mean")):  # fmt: skip
        figure = at(*path.split("."))(run.evaluation)
        if figure and None not in figure.values():
            results.append(EvalResult(
                task_type="text-classification" if run.trains_scorer else "text-generation",
                dataset_type=next(iter(data_ids), task),
                dataset_name=task, metric_type=metric, metric_value=round(figure["value"], 4),
                metric_name=f"{metric} (95% interval {figure['low']:.4f} to {figure['high']:.4f}, n={n})",
            ))  # fmt: skip
    return results
