"""Measures the start model and the trained model of a run: a policy, or a reward model.

    evaluator = PolicyEvaluator(experiment)
    probe = evaluator.measure_start_model()
    evaluator.measure_trained_model()        # that is saved in run_dir/model

Each measurement is written at once, so that it is kept after a crash.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from transformers import PreTrainedModel

from rlhf_exp.algorithms import ALGORITHMS, DEMONSTRATIONS, PAIRS
from rlhf_exp.callbacks.probe import Probe
from rlhf_exp.config.values import show
from rlhf_exp.evaluation import held_out_loss, trivial
from rlhf_exp.evaluation.cache import sample_start_model
from rlhf_exp.evaluation.completions import make_samples, sample_held_out
from rlhf_exp.evaluation.metrics import compare, summarise
from rlhf_exp.evaluation.preferences.figures import compare_preferences, find_errors, summarise_preferences
from rlhf_exp.evaluation.preferences.scores import describe_pairs, implicit_rewards, score_pairs
from rlhf_exp.models.loading import load_policy, load_scorer
from rlhf_exp.models.source import ModelSource
from rlhf_exp.models.vllm import choose_engine, choose_sampler
from rlhf_exp.runs.folder import write_json, write_jsonl
from rlhf_exp.tasks.tokens import encode_prompts

if TYPE_CHECKING:
    from rlhf_exp.experiment import Experiment


class PolicyEvaluator:
    """Measures completions of held-out prompts, graded and rewarded; the policy's implicit rewards on held-out pairs;
    the loss of sft on held-out demonstrations, and the loss of dpo on the pairs."""

    def __init__(self, experiment: "Experiment") -> None:
        self.experiment = experiment
        self.prompt_ids = encode_prompts(experiment.tokenizer, experiment.task.eval)
        self.samples: list[dict[str, Any]] = []
        self.baseline: dict[str, Any] = {}
        self.scored: list[held_out_loss.Scored] = []
        self.policies: dict[str, trivial.Chosen] = {}

    def measure_start_model(self) -> Probe:
        """Measure the start model, with cached completions if there are any; returns the probe for training."""
        cfg, run_dir = self.experiment.cfg, self.experiment.folder.path
        start_model = load_policy(self.experiment.model)
        self.experiment.folder.record["eval_engine"] = choose_engine(cfg)
        held_out = sample_start_model(self.experiment, self.prompt_ids, "baseline", start_model)
        self.samples = make_samples("baseline", self.experiment, held_out)
        self.baseline = summarise(self.samples, cfg.max_tokens, held_out, cfg.eval.completions)
        self.baseline |= self._measure_loss(start_model)
        if ALGORITHMS[cfg.algo.name].has_implicit_rewards:
            self.baseline["preference"] = held_out_loss.UNTRAINED_PAIRS
        write_json(run_dir / "evaluation.json", {"baseline": self.baseline})
        write_jsonl(run_dir / "samples.jsonl", self.samples)
        rows = list(zip(self.prompt_ids, held_out.completion_ids[:: cfg.eval.start_completions], strict=True))
        pad_id = self.experiment.tokenizer.pad_token_id
        return Probe(start_model, rows[: cfg.monitor.probe_rows], cfg.monitor.probe_tokens, pad_id)

    def measure_policies(self) -> None:
        """Measure trivial policies made of the start model's weights, which training has to beat."""
        run_dir, task = self.experiment.folder.path, self.experiment.task
        self.policies = trivial.measure_policies(self.experiment, load_policy(self.experiment.model))
        write_jsonl(run_dir / "policies.jsonl", trivial.list_rows(self.policies, task.eval))
        evaluation = {"baseline": self.baseline, "baselines": trivial.describe_policies(self.policies)}
        write_json(run_dir / "evaluation.json", evaluation)

    def measure_trained_model(self) -> None:
        """Measure the saved model, and how it differs from the start model."""
        cfg, task, run_dir = self.experiment.cfg, self.experiment.task, self.experiment.folder.path
        tokenizer = self.experiment.tokenizer
        start_model = load_policy(self.experiment.model)
        source = replace(self.experiment.model.at(run_dir / "model"), dtype=start_model.dtype)
        policy = load_policy(source)
        sampler = choose_sampler(cfg, source)
        held_out = sample_held_out(policy, tokenizer, self.prompt_ids, cfg, start_model, sampler=sampler)
        samples = make_samples("trained", self.experiment, held_out)
        section = summarise(samples, cfg.max_tokens, held_out)
        paired = compare(self.samples, samples, cfg.max_tokens)
        if self.scored:
            scored = held_out_loss.score_demonstrations(policy, tokenizer, task.demonstrations, cfg, "loss, trained")
            section["loss"] = held_out_loss.token_loss(scored)
            paired["loss"] = held_out_loss.compare_token_loss(self.scored, scored)
        if task.pairs:
            scores = implicit_rewards(policy, start_model, tokenizer, task.pairs, cfg)
            rows = describe_pairs("trained", task.pairs, scores, tokenizer)
            section["preference"] = summarise_preferences(rows)
            if "loss" in self.baseline and not self.scored:
                section["loss"] = section["preference"]["loss"]
                paired["loss"] = held_out_loss.compare_pair_loss(section["loss"])
            write_jsonl(run_dir / "preferences.jsonl", rows)
            write_json(run_dir / "errors.json", find_errors(rows))
        evaluation = {"baseline": self.baseline, "trained": section, "paired": paired}
        if self.policies:
            evaluation["baselines"] = trivial.describe_policies(self.policies, samples)
        write_json(run_dir / "evaluation.json", evaluation)
        write_jsonl(run_dir / "samples.jsonl", [*self.samples, *samples])

    def _measure_loss(self, start_model: PreTrainedModel) -> dict[str, Any]:
        """The start model's `loss`; or `loss_left_out`, a sentence why there is none, which is also printed."""
        cfg, rows = self.experiment.cfg, self.experiment.task.demonstrations
        row = ALGORITHMS[cfg.algo.name]
        if not row.held_out_loss or (row.learns_from == DEMONSTRATIONS and not rows):
            return {}
        if other := row.find_other_loss(cfg.algo.args):
            reason = f"with algo.args.{other}={show(cfg.algo.args[other])} it is not the training loss"
        elif row.learns_from == PAIRS:
            return {"loss": held_out_loss.LN_2}
        else:
            tokenizer = self.experiment.tokenizer
            self.scored = held_out_loss.score_demonstrations(start_model, tokenizer, rows, cfg, "loss, baseline")
            if self.scored:
                counts = {"scored": len(self.scored), "left_out": len(rows) - len(self.scored)}
                return {"loss": held_out_loss.token_loss(self.scored), "loss_rows": counts}
            reason = f"the prompts of all {len(rows)} rows fill algo.args.max_length={cfg.algo.args['max_length']}"
        print(f"held-out loss: left out, {reason}", flush=True)
        return {"loss_left_out": reason}


class ScorerEvaluator:
    """Measures rewards on held-out preference pairs. The baseline is the start model with the untrained head with which
    training begins."""

    def __init__(self, experiment: "Experiment") -> None:
        self.experiment = experiment
        self.rows: list[dict[str, Any]] = []

    def measure_start_model(self) -> None:
        """Measure the untrained reward model. There is no probe: a reward model has no next-token distribution."""
        run_dir = self.experiment.folder.path
        self.rows = self._score("baseline", self.experiment.model)
        write_json(run_dir / "evaluation.json", {"baseline": summarise_preferences(self.rows)})
        write_jsonl(run_dir / "preferences.jsonl", self.rows)

    def measure_trained_model(self) -> None:
        """Measure the saved model."""
        run_dir = self.experiment.folder.path
        trained = self._score("trained", self.experiment.model.at(run_dir / "model"))
        before, after = summarise_preferences(self.rows), summarise_preferences(trained)
        paired = compare_preferences(self.rows, trained)
        write_json(run_dir / "evaluation.json", {"baseline": before, "trained": after, "paired": paired})
        write_jsonl(run_dir / "preferences.jsonl", [*self.rows, *trained])
        write_json(run_dir / "errors.json", find_errors(trained))

    def _score(self, which: str, source: ModelSource) -> list[dict[str, Any]]:
        cfg, tokenizer, pairs = self.experiment.cfg, self.experiment.tokenizer, self.experiment.task.pairs
        scores = score_pairs(load_scorer(source, cfg.seed), tokenizer, pairs, cfg)
        return describe_pairs(which, pairs, scores, tokenizer)
