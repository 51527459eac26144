"""Measures the start model and the trained model of a run: a policy, or a reward model.

    evaluator = PolicyEvaluator(experiment)
    probe = evaluator.measure_start_model()
    Validation(experiment).measure(policy, step)    # on validation rows, during training
    evaluator.measure_trained_model()        # that is saved in run_dir/model

Each measurement is written at once, so that it is kept after a crash.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from peft import PeftModel

from rlhf_exp.algorithms import DEMONSTRATIONS, PAIRS
from rlhf_exp.callbacks.metrics import Probe
from rlhf_exp.config.values import show
from rlhf_exp.errors import tell
from rlhf_exp.evaluation import answers
from rlhf_exp.evaluation.baselines import BestBaseline, measure_baselines
from rlhf_exp.evaluation.cache import sample_cached
from rlhf_exp.evaluation.completions import EvalSet, judge, measure_kl, sample_rows
from rlhf_exp.evaluation.metrics import RawSection, average_rows, compare, summarise
from rlhf_exp.evaluation.preferences import compare_preferences, find_errors, summarise_preferences
from rlhf_exp.evaluation.token_figures import add_token_figures
from rlhf_exp.experiment import Experiment
from rlhf_exp.models.generation import Sampling, choose_method
from rlhf_exp.models.loading import load_policy, load_scorer
from rlhf_exp.models.scoring import Model, whole_weights
from rlhf_exp.models.source import ModelSource
from rlhf_exp.models.vllm import choose_engine
from rlhf_exp.runs.records import Completion, Evaluation, Measurement, Pair, write, write_lines
from rlhf_exp.tasks.tokens import encode_prompts


@dataclass(frozen=True)
class Measured:
    """What was measured of one model: its section of evaluation.json, its completions, its rows of preferences.jsonl,
    and the demonstrations by which its loss was measured."""

    section: RawSection
    completions: list[Completion] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    demonstrations: list[answers.Scored] = field(default_factory=list)


def write_measured(
    run_dir: Path, measured: dict[str, Measured], further: Sequence[Completion] = (), **more: Any
) -> None:
    """Write evaluation.json, and the lines that its figures are of.

    Args:
        measured: the models, baseline and perhaps trained.
        further: completions of other rows than the run's own.
        more: further sections.
    """
    sections = {which: one.section for which, one in measured.items()}
    write(run_dir / "evaluation.json", Evaluation.model_validate({**sections, **more}))
    samples = [*_list_samples(measured), *further]
    pairs = [pair for one in measured.values() for pair in one.pairs]
    if samples:
        write_lines(run_dir / "samples.jsonl", samples)
    if pairs:
        write_lines(run_dir / "preferences.jsonl", pairs)
    if "trained" in measured and measured["trained"].pairs:
        write(run_dir / "errors.json", find_errors(measured["trained"].pairs))


def _list_samples(measured: dict[str, Measured], **more: str) -> list[Completion]:
    return [one.model_copy(update={"which": which, **more}) for which, of in measured.items() for one in of.completions]


class PolicyEvaluator:
    """Measures completions of held-out prompts, graded and rewarded; the policy's implicit rewards on held-out pairs;
    the loss of sft on held-out demonstrations, and the loss of dpo on the pairs."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self._own = EvalSet.of(experiment.cfg, experiment.task, experiment.tokenizer, experiment.rewards)
        self.measured: dict[str, Measured] = {}
        self.sets: dict[str, dict[str, Measured]] = {name: {} for name in experiment.sets}
        self._parts: dict[str, dict[str, Measured]] = {name: {} for name in experiment.cfg.task.parts}
        self.best: BestBaseline | None = None

    def measure_start_model(self) -> Probe:
        """Measure the start model, with cached completions if there are any; returns the probe for training."""
        cfg, start_model = self.experiment.cfg, load_policy(self.experiment.model)
        judged, cached = self._sample_start(self._own, "baseline", start_model)
        record = self.experiment.folder.record
        record.eval_engine, record.baseline_cached = choose_engine(cfg), cached
        source = self.experiment.teacher
        teacher = load_policy(source) if source else None
        if teacher is not None:
            judged = self._compare_teacher(judged, start_model, teacher)
        completions = add_token_figures(self.experiment, judged, start_model)
        section = summarise(completions, cfg.max_tokens, cfg.eval.completions)
        loss, demonstrations = self._measure_loss(start_model)
        section |= loss
        if cfg.algo.row.has_implicit_rewards:
            section["preference"] = answers.UNTRAINED_PAIRS
        self.measured["baseline"] = Measured(section, completions, demonstrations=demonstrations)
        if teacher is not None:
            found = judge(self._own, sample_rows(self._own, teacher, start_model, "teacher", source))
            self.measured["teacher"] = Measured(summarise(found, cfg.max_tokens), found)
        for name, of_set in self.experiment.sets.items():
            found, _ = self._sample_start(of_set, f"{name}, baseline", start_model)
            self.sets[name]["baseline"] = Measured(summarise(found, cfg.max_tokens, cfg.eval.completions), found)
        self._write()
        first = [one for one in completions if one.decoding == "sampled" and one.sample == 0]
        tokenizer = self.experiment.tokenizer
        prompts = encode_prompts(tokenizer, self.experiment.task.eval)
        rows = [(one.prompt_ids or prompt, one.ids) for prompt, one in zip(prompts, first, strict=True)]
        return Probe(start_model, rows[: cfg.monitor.probe_rows], cfg.monitor.probe_tokens, tokenizer.pad_token_id)

    def measure_baselines(self) -> None:
        """Measure other ways to sample the start model, which training has to beat."""
        source = self.experiment.model
        self.best = measure_baselines(self.experiment.cfg, self._own, source, load_policy(source))
        write_lines(self.experiment.folder.path / "policies.jsonl", [self.best.list_rows(self.experiment.task.eval)])
        self._write()

    def measure_trained_model(self) -> None:
        """Measure the saved model, and how it differs from the start model."""
        cfg, start_model = self.experiment.cfg, load_policy(self.experiment.model)
        source = replace(self.experiment.model.at(self.experiment.folder.path / "model"), dtype=start_model.dtype)
        policy = load_policy(source)
        completions = judge(self._own, sample_rows(self._own, policy, start_model, source=source))
        if self.experiment.teacher is not None:
            completions = self._compare_teacher(completions, policy, load_policy(self.experiment.teacher))
        completions = add_token_figures(self.experiment, completions, policy, start_model)
        section, start, pairs = summarise(completions, cfg.max_tokens), self.measured["baseline"], []
        paired = compare(start.completions, completions, cfg.max_tokens)
        if before := start.demonstrations:
            scored = answers.score_demonstrations(self.experiment, policy, "loss, trained")
            section["loss"], paired["loss"] = answers.token_loss(scored), answers.token_loss(scored, before)
        if self.experiment.task.pairs:
            scores = answers.implicit_rewards(self.experiment, policy, start_model)
            pairs = answers.describe_pairs("trained", self.experiment, scores)
            section["preference"] = summarise_preferences(pairs)
            if "loss" in start.section and not before:
                section["loss"] = section["preference"]["loss"]
                paired["loss"] = answers.compare_pair_loss(section["loss"])
        self.measured["trained"] = Measured(section, completions, pairs)
        for name, of_set in self.experiment.sets.items():
            found = judge(of_set, sample_rows(of_set, policy, start_model, f"{name}, trained", source))
            self.sets[name]["trained"] = Measured(summarise(found, cfg.max_tokens), found)
        self._write(paired=paired)

    def _compare_teacher(self, completions: list[Completion], policy: Model, teacher: Model) -> list[Completion]:
        """The policy's completions, with their exact KL(policy || teacher), at temperature 1."""
        tokenizer, prompts = self._own.tokenizer, encode_prompts(self._own.tokenizer, self._own.rows)
        rows = [(prompts[one.row], one.ids) for one in completions]
        found = measure_kl(policy, teacher, rows, tokenizer.pad_token_id, Sampling(1))
        return [one.model_copy(update={"kl_teacher": kl.kl}) for one, kl in zip(completions, found, strict=True)]

    def _sample_start(self, of: EvalSet, title: str, start_model: Model) -> tuple[list[Completion], bool]:
        """The start model's judged completions, `eval.start_completions` of each row; and whether they were cached."""
        wanted = self.experiment.cfg.eval
        more = replace(of, draws=replace(of.draws, completions=wanted.start_completions))
        sampled, cached = sample_cached(more, self.experiment.model, wanted.cache_dir, title, start_model)
        return judge(of, sampled), cached

    def _write(self, **more: Any) -> None:
        """Write what has been measured so far."""
        if self.best is not None:
            trained = self.measured["trained"].completions if "trained" in self.measured else None
            more["baselines"] = self.best.describe(self.experiment.cfg.max_tokens, trained)
        samples = list[Completion]()
        for name, of in {**self._divide(), **self.sets}.items():
            section: RawSection = {which: one.section for which, one in of.items()}
            if "trained" in of:
                sides = of["baseline"].completions, of["trained"].completions
                section["paired"] = compare(*sides, self.experiment.cfg.max_tokens)
            more["sets"] = more.get("sets", {}) | {name: section}
            samples += _list_samples(of, set=name) if name in self.sets else []
        write_measured(self.experiment.folder.path, self.measured, samples, **more)

    def _divide(self) -> dict[str, dict[str, Measured]]:
        """What has been measured of each part of a mixture, by its name; each is summarised once."""
        cfg = self.experiment.cfg
        for name, part in self._parts.items():
            ids = {row["id"] for row in self.experiment.task.eval if row["task"] == name}
            for which in [which for which in self.measured if which not in part]:
                own = [one for one in self.measured[which].completions if one.id in ids]
                k = cfg.eval.completions if which == "baseline" else None
                if own:
                    part[which] = Measured(summarise(own, cfg.max_tokens, k), own)
        return {name: part for name, part in self._parts.items() if part}

    def _measure_loss(self, start_model: Model) -> tuple[RawSection, list[answers.Scored]]:
        """The start model's `loss`, and the demonstrations that it is of; or `loss_left_out`, a sentence why there is
        none, which is also printed."""
        cfg, rows = self.experiment.cfg, self.experiment.task.demonstrations
        row = cfg.algo.row
        if not row.held_out_loss or (row.learns_from == DEMONSTRATIONS and not rows):
            return {}, []
        if other := row.find_other_loss(cfg.algo.args):
            reason = f"with algo.args.{other}={show(cfg.algo.args[other])} it is not the training loss"
        elif row.learns_from == PAIRS:
            return {"loss": answers.LN_2}, []
        else:
            scored = answers.score_demonstrations(self.experiment, start_model, "loss, baseline")
            if scored:
                counts = {"scored": len(scored), "left_out": len(rows) - len(scored)}
                return {"loss": answers.token_loss(scored), "loss_rows": counts}, scored
            reason = f"the prompts of all {len(rows)} rows fill algo.args.max_length={cfg.algo.args['max_length']}"
        tell(f"held-out loss: left out, {reason}")
        return {"loss_left_out": reason}, []


class ScorerEvaluator:
    """Measures rewards on held-out preference pairs. The baseline is the start model with the untrained head with which
    training begins."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self.measured: dict[str, Measured] = {}

    def measure_start_model(self) -> None:
        """Measure the untrained reward model. There is no probe: a reward model has no next-token distribution."""
        self._measure("baseline", self.experiment.model)

    def measure_trained_model(self) -> None:
        """Measure the saved model."""
        self._measure("trained", self.experiment.model.at(self.experiment.folder.path / "model"))

    def _measure(self, which: Literal["baseline", "trained"], source: ModelSource) -> None:
        scores = answers.score_pairs(self.experiment, load_scorer(source, self.experiment.cfg.seed))
        rows = answers.describe_pairs(which, self.experiment, scores)
        self.measured[which] = Measured(summarise_preferences(rows), pairs=rows)
        sides = [of_model.pairs for of_model in self.measured.values()]
        more: RawSection = {"paired": compare_preferences(*sides)} if len(sides) == 2 else {}
        write_measured(self.experiment.folder.path, self.measured, **more)


class Validation:
    """One completion of each validation row, with the sampling of the held-out measurement: the same rows and random
    numbers at every step, so that differences between steps are paired.

    Attributes:
        metric: what `eval.best` chooses by, `validation/accuracy`, or `validation/reward` without a grader.
    """

    def __init__(self, experiment: Experiment) -> None:
        cfg, task, self._source = experiment.cfg, experiment.task, experiment.model
        of = EvalSet.of(cfg, task, experiment.tokenizer, experiment.rewards)
        key, method = ("validation", cfg.eval.seed), choose_method(cfg)
        once = replace(of.draws, key=key, completions=1, greedy=False, method=method)
        self._of = replace(of, rows=task.validation, draws=once)
        self.metric = "validation/accuracy" if task.grade is not None else "validation/reward"

    def measure(self, policy: Model, step: int) -> Measurement:
        """Each row's figures at a step: accuracy with a grader, reward with rewards, KL to the start model in nats,
        length in tokens, and whether it was cut off at the budget. Torch's random state is left alone.

        The start model is loaded for each measurement, since a second copy of all weights in memory throughout training
        would cost more; a policy with an adapter is the start model without it.
        """
        start_model = policy if isinstance(policy, PeftModel) else load_policy(self._source)
        with whole_weights(policy):
            sampled = sample_rows(self._of, policy, start_model, "validation")
        figures = average_rows(judge(self._of, sampled))
        of_rows = {name: [_shorten(value) for value in values] for name, values in figures.items()}
        ids = [row["id"] for row in self._of.rows]
        return Measurement.model_validate({"step": step, "id": ids, **of_rows})


def _shorten(value: float) -> float:
    """Six decimals, and whole numbers without any, since a run folder holds all of them."""
    return int(value) if float(value).is_integer() else round(float(value), 6)
