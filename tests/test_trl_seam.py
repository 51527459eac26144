"""What we rely on in TRL beyond its documented arguments; fails loudly when TRL moves it."""

import inspect

from trl import GRPOTrainer

from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.rules import machine
from rlhf_exp.models.generation import choose_method


def test_grpo_takes_a_rollout_function_that_returns_ids_without_logprobs():
    assert "rollout_func" in inspect.signature(GRPOTrainer.__init__).parameters
    source = inspect.getsource(GRPOTrainer._generate)
    assert "self.rollout_func(prompts, self)" in source
    assert 'required_keys = {"prompt_ids", "completion_ids", "logprobs"}' in source
    scoring = inspect.getsource(GRPOTrainer._generate_and_score_completions)
    assert "if sampling_per_token_logps_list is not None:" in scoring, "logprobs=None must mean: compute them"


def test_grpo_has_what_the_rollout_function_reads():
    assert list(inspect.signature(GRPOTrainer._tokenize_prompts).parameters) == ["self", "prompts"]
    source = inspect.getsource(GRPOTrainer)
    for name in ("generation_config", "temperature", "top_p", "top_k", "eos_token_ids", "_tokenizer", "model_wrapped"):
        assert f"self.{name}" in source, name


def test_auto_is_compact_on_a_cpu_and_trl_elsewhere(monkeypatch):
    monkeypatch.setattr(machine, "_check_vllm", lambda cfg: [])
    monkeypatch.setattr(machine, "find_spec", lambda name: name)
    assert choose_method(compose_config(["device=cpu"])) == "compact"
    assert choose_method(compose_config(["device=cpu", "generation=trl"])) == "trl"
    assert choose_method(compose_config(["device=cpu", "+algo.args.use_vllm=true"])) == "trl"
    assert choose_method(compose_config(["device=cpu", "generation=vllm_server"])) == "trl"
