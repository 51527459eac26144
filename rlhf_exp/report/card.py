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

from rlhf_exp.report.page import Block, Callout, Code, Heading, Table, Text
from rlhf_exp.report.policies import policy_sentence
from rlhf_exp.report.provenance import Source, find_base, find_data, find_model
from rlhf_exp.report.single import describe_findings
from rlhf_exp.report.summary import SUMMARY_NOTE, list_figures, loss_note, several_note, summary_head, summary_rows
from rlhf_exp.report.tables import at, fact_tables, join_notes
from rlhf_exp.report.verdict import accuracy_name, best_sentence, status_sentence, verdict, win_sentence
from rlhf_exp.runs.folder import read_record, write_text
from rlhf_exp.runs.load import Run, load_run

CARD, CONFIG, ADAPTER_CARD = "README.md", "rlhf_exp_config.yaml", "ADAPTER_README.md"
ADAPTER = "adapter_config.json"

TOKENS = 128
"""To generate in the example, if the run has no budget."""

SAMPLING = ("temperature", "top_p", "top_k")

SETTINGS = (
    *("algo.name", "algo.args.loss_type", "algo.args.max_steps", "algo.args.num_train_epochs", "train_tokens"),
    *("algo.args.learning_rate", "algo.args.lr_scheduler_type", "algo.args.warmup_steps"),
    *("algo.args.per_device_train_batch_size", "algo.args.gradient_accumulation_steps"),
    *("algo.args.num_generations", "algo.args.num_iterations", "algo.args.beta", "algo.init_kl_coef"),
    *("algo.args.temperature", "max_tokens", "reward.weights", "reward.path", "peft.name", "peft.lora.r"),
    *("peft.lora.lora_alpha", "peft.lora.target_modules", "peft.quantization", "model.dtype", "seed"),
)
"""Keys of the config that the card shows; the file beside it has all."""

MERGED = (
    "This is that adapter added to its base, as one model of full weights. What is measured below was measured with the"
    " adapter on its base, not again after merging."
)


def write_cards(run: Run) -> None:
    """Write the card of each model that is in the run's folder.

    Raises:
        OSError: it cannot be written.
    """
    if not run.trains:
        return
    for folder in [run.path / "model", *sorted(run.path.glob("best-*"))]:
        if folder.is_dir():
            _write(run, folder, folder / ADAPTER, [])


def write_merged_card(adapter: Path, base: str, out: Path, command: str) -> None:
    """Write the card of a merged model: with the figures of the adapter's run if the adapter lies in its folder; else
    with what its base says, and the adapter's own card beside it.

    Args:
        base: the folder or hub id of the base.
    """
    made = [Heading("Merged"), Text(f"Made from the adapter {adapter} on {base}. {MERGED}"), Code(command, "bash")]
    if read_record(adapter.parent).get("status") not in (None, "broken"):
        _write(load_run(adapter.parent), out, None, made)
        return
    source = find_base(base)
    more = []
    if (adapter / CARD).is_file():
        shutil.copyfile(adapter / CARD, out / ADAPTER_CARD)
        more = [Text(f"The card of the adapter is in {ADAPTER_CARD}.")]
    scores = json.loads((adapter / ADAPTER).read_text(encoding="utf-8")).get("task_type") == "SEQ_CLS"
    data = _metadata(source, [], scores, adapter=False, tags=["rlhf_exp"])
    blocks = [Heading(out.name, 1), *made, *more, *_describe_use(str(out), scores), *_describe_licence(source)]
    _save(data, blocks, out)


def _write(run: Run, folder: Path, adapter_config: Path | None, made: list[Block]) -> None:
    """The card of a run's model; `made` says how it was made of what the run saved."""
    adapter = adapter_config is not None and adapter_config.is_file()
    model, rows = find_model(run), find_data(run)
    losses = run.info.get("loss_type")
    tags = ["rlhf_exp", "trl", *(run.info.get(key) for key in ("algo", "task"))]
    tags += [*(losses if isinstance(losses, list) else [losses]), "lora" if adapter or made else None]
    scores = run.trains_scorer
    data = _metadata(model, rows, scores, adapter, [str(tag) for tag in tags if tag])
    name = _read(run, "hub.repo")
    if not made and folder.name == "model":
        data.eval_results, data.model_name = _list_results(run, rows) or None, (name or _name(run)).rpartition("/")[2]
    blocks = [Heading((name or _name(run)).rpartition("/")[2], 1), *_describe_run(run, model, adapter), *made]
    blocks += _describe_figures(run, folder)
    place = str(folder) if made or not name else name
    tokens, sampling = _read(run, "max_tokens") or TOKENS, {name: _read(run, f"eval.{name}") for name in SAMPLING}
    sampling = {name: value for name, value in sampling.items() if value is not None}
    blocks += _describe_use(place, scores, _read_adapter(adapter_config), _example(run), tokens, sampling)
    blocks += _describe_training(run) + _describe_data(run, rows) + _describe_licence(model, rows)
    if (config := run.path / ".hydra" / "config.yaml").is_file():
        shutil.copyfile(config, folder / CONFIG)
    _save(data, blocks, folder)


def _metadata(model: Source, rows: list[Source], scores: bool, adapter: bool, tags: list[str]) -> ModelCardData:
    return ModelCardData(
        **{"license": "unknown"} | model.licence,
        base_model=model.hub_id,
        datasets=[source.hub_id for source in rows if source.hub_id] or None,
        library_name="peft" if adapter else "transformers",
        pipeline_tag="text-classification" if scores else "text-generation",
        tags=tags,
    )


def _save(data: ModelCardData, blocks: list[Block], folder: Path) -> None:
    text = "\n\n".join(block.markdown(folder) for block in blocks)
    write_text(folder / CARD, str(ModelCard(f"---\n{data.to_yaml()}\n---\n\n{text}\n")))


def _list_results(run: Run, rows: list[Source]) -> list[EvalResult]:
    """The figures after training that have an interval, as shares of 1 and nats."""
    trained, paired = run.evaluation.get("trained", {}), run.evaluation.get("paired", {})
    kind, n = accuracy_name(run), trained.get("n")
    figures = (
        ("accuracy", kind, trained.get("accuracy")),
        ("accuracy_gain", f"{kind}, trained minus start model", paired.get("difference")),
        ("win_rate", "Win rate against the start model, by reward", paired.get("win_rate")),
        ("kl", "KL to the start model, nats per completion", at("kl", "mean")(trained)),
    )
    dataset = next((source.hub_id for source in rows if source.hub_id), str(run.info.get("task")))
    return [
        EvalResult(
            task_type="text-classification" if run.trains_scorer else "text-generation",
            dataset_type=dataset,
            dataset_name=str(run.info.get("task")),
            dataset_split=_read(run, "eval.split"),
            metric_type=metric,
            metric_name=f"{name} (95% interval {found['low']:.4f} to {found['high']:.4f}, n={n})",
            metric_value=round(found["value"], 4),
        )
        for metric, name, found in figures
        if found and None not in found.values()
    ]


def _describe_run(run: Run, model: Source, adapter: bool) -> list[Block]:
    what = "A reward model" if run.trains_scorer else "A language model"
    what += ", as a LoRA adapter," if adapter else ""
    start = model.name + (f" (commit {model.commit})" if model.commit else "")
    blocks: list[Block] = [
        Text(f"{what} trained with algo={run.info.get('algo')} on task={run.info.get('task')} by rlhf_exp, a layer over"
             f" TRL. It started from {start}.")
    ]  # fmt: skip
    if sentence := status_sentence(run):
        blocks.append(Callout("warning", "Not finished.", sentence))
    return blocks


def _describe_figures(run: Run, folder: Path) -> list[Block]:
    blocks: list[Block] = [Heading("Figures")]
    if folder.name.startswith("best-"):
        best = best_sentence(run)
        return [*blocks, Text(f"This is {best}." if best else "Nothing was measured of it.")]
    if "trained" not in run.evaluation:
        return [*blocks, Text("Nothing was measured after training.")]
    trained = run.evaluation["trained"]
    rows = f"{trained['n']} {'pairs' if run.trains_scorer else 'rows'} of the {_read(run, 'eval.split')} split"
    rows += f", none of which was trained on; one training run, of seed {run.info.get('seed')}"
    blocks += [Text(verdict(run).sentence), Text(f"Measured on {rows}.")]
    blocks.append(Table(summary_head(run), summary_rows(run)))
    notes = [SUMMARY_NOTE, several_note(run), join_notes(list_figures(run)), loss_note(run)]
    blocks.append(Text(" ".join(filter(None, notes))))
    labelled = (("Win rate by reward", win_sentence(run)), ("Trivial policies", policy_sentence(run)))
    blocks += [Text(f"{label}: {text}.") for label, text in labelled if text]
    if best := best_sentence(run):
        blocks.append(Text(f"Kept: {best}."))
    return [*blocks, Heading("Health of the training"), *describe_findings(run)]


def _describe_use(
    place: str, scores: bool, adapter: dict[str, Any] | None = None, example: str | list | None = None,
    tokens: int = TOKENS, sampling: dict[str, Any] | None = None,
) -> list[Block]:  # fmt: skip
    """Code that loads the model and asks it; `place` is a folder or hub id."""
    kind = "SequenceClassification" if scores else "CausalLM"
    library, auto = ("peft", f"AutoPeftModelFor{kind}") if adapter else ("transformers", f"AutoModelFor{kind}")
    lines = [f"from {library} import {auto}"] if adapter else []
    lines += [f"from transformers import {'' if adapter else f'{auto}, '}AutoTokenizer", ""]
    lines += [f"place = {place!r}  # this folder, or its id on the hub"]
    lines += ["tokenizer = AutoTokenizer.from_pretrained(place)"]
    lines += [f"model = {auto}.from_pretrained(place{', num_labels=1' if scores and adapter else ''})"]
    lines += _write_question(scores, repr("..." if example is None else example), tokens, sampling or {})
    blocks: list[Block] = [Heading("How to use it"), Code("\n".join(lines), "python")]
    base = adapter["base_model_name_or_path"] if adapter else None
    if adapter:
        text = f"The adapter records {base} as its base."
        if Path(base).is_absolute():
            text += (
                " That is a folder of the machine it was trained on: elsewhere, load the base yourself and add the"
                " adapter with PeftModel.from_pretrained(base, place), or merge the two on that machine with python -m"
                " rlhf_exp merge."
            )
        blocks.append(Text(text))
    if not scores:
        serve = ["vllm", "serve", base or place]
        if adapter:
            serve += ["--enable-lora", "--max-lora-rank", str(adapter["r"]), "--lora-modules", f"trained={place}"]
        blocks += [Text("With vLLM:"), Code(shlex.join(serve), "bash")]
    return blocks


def _write_question(scores: bool, prompt: str, tokens: int, sampling: dict[str, Any]) -> list[str]:
    """Lines that score or continue a prompt, which is sampled as it was measured."""
    ask = f'inputs = tokenizer({prompt}, return_tensors="pt")'
    if scores:
        return [ask, "print(model(**inputs).logits[0, 0].item())  # the reward"]
    how = "".join(f", {name}={value}" for name, value in sampling.items())
    return [
        ask,
        f"output = model.generate(**inputs, max_new_tokens={tokens}, do_sample=True{how})",
        "print(tokenizer.decode(output[0]))",
    ]


def _describe_training(run: Run) -> list[Block]:
    info = run.info
    rows = [[key, str(value)] for key in SETTINGS if (value := _read(run, key)) not in (None, [], {})]
    rows += [["steps", f"{info['steps']:,}"]] if info.get("steps") else []
    versions = ", ".join(f"{name} {version}" for name, version in info.get("versions", {}).items())
    commit = info.get("git_commit")
    ended = f"Started {info.get('started')}, ended {info.get('finished')}, on {info.get('device')}."
    return [
        Heading("Training"),
        Code(info.get("command") or "no command was recorded", "bash"),
        Table(["setting", "value"], rows),
        Text(f"The whole config is in {CONFIG}."),
        Text(f"Versions: {versions}; git commit {commit or 'unknown'} of rlhf_exp. {ended}"),
    ]


def _describe_data(run: Run, rows: list[Source]) -> list[Block]:
    counts, hashes = run.info.get("rows") or {}, run.info.get("inputs") or {}
    table = [["task", str(run.info.get("task"))]]
    table += [["source", f"{source.name}; licence {_name_licence(source)}"] for source in rows]
    table += [[f"{name.replace('_', ' ')} rows", f"{n:,}"] for name, n in counts.items() if n]
    table += [[f"sha256, {name}", digest] for name, digest in hashes.items()]
    return [Heading("Data"), Table(["", ""], table), *fact_tables(run.facts)]


def _describe_licence(model: Source, rows: list[Source] = ()) -> list[Block]:
    lines = [f"Of the start model, {model.name}: {_name_licence(model)}."]
    if not model.licence:
        lines.append("No licence of it was found: ask those who made it before you share this model.")
    lines += [f"Of the data, {source.name}: {_name_licence(source)}." for source in rows]
    return [Heading("Licence"), Text(" ".join(lines))]


def _name_licence(source: Source) -> str:
    found = source.licence
    texts = [found.get("license", "unknown"), found.get("license_name"), found.get("license_link")]
    return ", ".join(", ".join(text) if isinstance(text, list) else str(text) for text in texts if text)


def _name(run: Run) -> str:
    model = str(run.info.get("model")).replace("/", "_")
    return f"{model}-{run.info.get('task')}-{run.info.get('algo')}"


def _example(run: Run) -> str | list | None:
    """A prompt that the run has sampled on, if its rows are generated; those of a file may not be for others."""
    if (run.config.get("task") or {}).get("source") != "generated" or not run.samples:
        return None
    return run.samples[0].get("prompt")


def _read_adapter(path: Path | None) -> dict[str, Any] | None:
    return json.loads(path.read_text(encoding="utf-8")) if path is not None and path.is_file() else None


def _read(run: Run, key: str) -> Any:
    """A value of the config by its dotted key; None if it is not there."""
    return at(*key.split("."))(run.config)
