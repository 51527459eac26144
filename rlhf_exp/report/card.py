"""Writes the model card of every model that a run has saved: README.md with the hub's metadata, and the run's config.

    write_cards(load_run(run_dir))            # run_dir/model, and run_dir/best-40 of a run that did not finish
    write_merged_card(adapter, base, out, command)      # of a model that rlhf_exp.merge has made

They take the place of the cards that peft and TRL write, which name neither figures nor data.
"""

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCard, ModelCardData
from jinja2 import Environment
from markupsafe import Markup

from rlhf_exp.report.baselines import baseline_sentence
from rlhf_exp.report.columns import at
from rlhf_exp.report.page import ASSETS, TEXTS, Code, Table, escape_text, to_markdown
from rlhf_exp.report.provenance import Source, find_base, find_data, find_model
from rlhf_exp.report.single import describe_findings, fact_tables
from rlhf_exp.report.summary import summary_note, summary_table
from rlhf_exp.report.verdict import accuracy_name, best_sentence, status_sentence, verdict, win_sentence
from rlhf_exp.runs.folder import read_record, write_text
from rlhf_exp.runs.load import Run, load_run

CARD, CONFIG, ADAPTER_CARD = "README.md", "rlhf_exp_config.yaml", "ADAPTER_README.md"
ADAPTER = "adapter_config.json"
OF_RUN = (best_sentence, describe_findings, baseline_sentence, status_sentence, summary_note, summary_table, verdict,
          win_sentence)  # fmt: skip
"""What the template asks of a run."""
TOKENS = 128
"""To generate in the example, if the run has no budget."""


def write_cards(run: Run) -> None:
    """Write the card of each model that is in the run's folder.

    Raises:
        OSError: it cannot be written.
    """
    if run.trains:
        for folder in [run.path / "model", *sorted(run.path.glob("best-*"))]:
            if folder.is_dir():
                _write_of_run(run, folder)


def write_merged_card(adapter: Path, base: str, out: Path, command: str) -> None:
    """Write the card of a merged model: with the figures of the adapter's run if the adapter lies in its folder; else
    with what its base says, and the adapter's own card beside it.

    Args:
        base: the folder or hub id of the base.
    """
    made = {"merged_from": str(adapter), "base": base, "command": command}
    if read_record(adapter.parent).get("status") not in (None, "broken"):
        _write_of_run(load_run(adapter.parent), out, made)
        return
    if (adapter / CARD).is_file():
        shutil.copyfile(adapter / CARD, out / ADAPTER_CARD)
        made["adapter_card"] = ADAPTER_CARD
    scores = json.loads((adapter / ADAPTER).read_text(encoding="utf-8")).get("task_type") == "SEQ_CLS"
    _write(out, {"tags": ["rlhf_exp"]}, **made, name=out.name, model=find_base(base), scores=scores, place=str(out))


def _write_of_run(run: Run, folder: Path, made: dict[str, str] | None = None) -> None:
    """The card of a run's model; `made` says how it was made of what the run saved."""
    file = folder / ADAPTER
    adapter = json.loads(file.read_text(encoding="utf-8")) if made is None and file.is_file() else None
    model, rows, info = find_model(run), find_data(run), run.info
    losses = info.get("loss_type")
    tags = ["rlhf_exp", "trl", info.get("algo"), info.get("task"), *(losses if isinstance(losses, list) else [losses])]
    tags.append("lora" if adapter or made else None)
    repo = _read(run, "hub.repo")
    name = repo or f"{str(info.get('model')).replace('/', '_')}-{info.get('task')}-{info.get('algo')}"
    metadata: dict[str, Any] = {"tags": [str(tag) for tag in tags if tag]}
    if made is None and folder.name == "model":
        results = _list_results(run, rows)
        metadata |= {"eval_results": results or None, "model_name": name.rpartition("/")[2]}
    # A prompt that the run has sampled on, if its rows are generated; those of a file may not be for others.
    generated = _read(run, "task.source") == "generated" and run.samples
    settings = [[key, str(value)] for key in TEXTS["settings"] if (value := _read(run, key)) not in (None, [], {})]
    settings += [["steps", f"{info['steps']:,}"]] if info.get("steps") else []
    context = {
        "name": name.rpartition("/")[2],
        "place": repo if repo and made is None else str(folder),
        "example": run.samples[0].get("prompt") if generated else "...",
        "tokens": _read(run, "max_tokens") or TOKENS,
        "sampling": {key: _read(run, f"eval.{key}") for key in ("temperature", "top_p", "top_k")},
        "split": _read(run, "eval.split"),
        "is_best": folder.name.startswith("best-"),
        "settings": [Table(["setting", "value"], settings)],
        "data": [_data_table(run, rows), *fact_tables(run.facts)],
    }
    if (config := run.path / ".hydra" / "config.yaml").is_file():
        shutil.copyfile(config, folder / CONFIG)
    _write(
        folder,
        metadata,
        run=run,
        model=model,
        rows=rows,
        adapter=adapter,
        scores=run.trains_scorer,
        **context,
        **made or {},
    )


def _write(folder: Path, metadata: dict[str, Any], model: Source, scores: bool, place: str, **context: Any) -> None:
    """Fill the template; what of the run or of an adapter is not given is left out."""
    adapter, rows = context.get("adapter"), context.get("rows", [])
    auto = f"Auto{'Peft' if adapter else ''}ModelFor{'SequenceClassification' if scores else 'CausalLM'}"
    serve = ["vllm", "serve", adapter["base_model_name_or_path"] if adapter else place]
    if adapter:
        serve += ["--enable-lora", "--max-lora-rank", str(adapter["r"]), "--lora-modules", f"trained={place}"]
    env = Environment(trim_blocks=True, lstrip_blocks=True, finalize=_finalize)
    env.filters |= {"fence": _write_fence, "quote": lambda value: Markup(repr(value)), "trusted": Markup}
    env.globals |= {function.__name__: function for function in OF_RUN}
    template = env.from_string((ASSETS / "model_card.md.jinja").read_text(encoding="utf-8"))
    defaults = {"example": "...", "tokens": TOKENS, "serve": shlex.join(serve), "auto": auto, "config": CONFIG}
    text = template.render(**defaults | context, model=model, scores=scores, place=place)
    data = ModelCardData(
        **{"license": "unknown"} | model.licence | metadata,
        base_model=model.hub_id,
        datasets=[source.hub_id for source in rows if source.hub_id] or None,
        library_name="peft" if adapter else "transformers",
        pipeline_tag="text-classification" if scores else "text-generation",
    )
    write_text(folder / CARD, str(ModelCard(f"---\n{data.to_yaml()}\n---\n\n{text}")))


def _finalize(value: Any) -> Any:
    """A value in the template: blocks as markdown, a text escaped."""
    if isinstance(value, list):
        return to_markdown(value)
    return escape_text(value) if type(value) is str else value


def _write_fence(code: str, language: str) -> Markup:
    return Markup(to_markdown([Code(code.strip("\n"), language)]))


def _list_results(run: Run, rows: list[Source]) -> list[EvalResult]:
    """The figures after training that have an interval, as shares of 1 and nats."""
    trained, paired = run.evaluation.get("trained", {}), run.evaluation.get("paired", {})
    kind, task = accuracy_name(run), str(run.info.get("task"))
    figures = (
        ("accuracy", kind, trained.get("accuracy")),
        ("accuracy_gain", f"{kind}, trained minus start model", paired.get("difference")),
        ("win_rate", "Win rate against the start model, by reward", paired.get("win_rate")),
        ("kl", "KL to the start model, nats per completion", at("kl", "mean")(trained)),
    )
    return [
        EvalResult(
            task_type="text-classification" if run.trains_scorer else "text-generation",
            dataset_type=next((source.hub_id for source in rows if source.hub_id), task),
            dataset_name=task,
            dataset_split=_read(run, "eval.split"),
            metric_type=metric,
            metric_name=f"{name} (95% interval {one['low']:.4f} to {one['high']:.4f}, n={trained.get('n')})",
            metric_value=round(one["value"], 4),
        )
        for metric, name, one in figures
        if one and None not in one.values()
    ]


def _data_table(run: Run, rows: list[Source]) -> Table:
    table = [["task", str(run.info.get("task"))]]
    table += [["source", f"{source.name}; licence {source.licence_text}"] for source in rows]
    table += [[f"{name.replace('_', ' ')} rows", f"{n:,}"] for name, n in (run.info.get("rows") or {}).items() if n]
    table += [[f"sha256, {name}", digest] for name, digest in (run.info.get("inputs") or {}).items()]
    return Table(["", ""], table)


def _read(run: Run, key: str) -> Any:
    """A value of the config by its dotted key; None if it is not there."""
    return at(*key.split("."))(run.config)
