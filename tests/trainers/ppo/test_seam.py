"""What PPOTrainer takes from TRL beyond its documented arguments; fails loudly when TRL moves it."""

import inspect

from transformers import Trainer
from trl import GRPOTrainer
from trl.trainer import utils


def source(name, of=GRPOTrainer):
    return inspect.getsource(getattr(of, name))


def test_the_loss_takes_advantages_per_token_and_the_rollouts_log_probabilities():
    loss = source("_compute_loss")
    assert "if advantages.dim() == 1:" in loss
    assert 'inputs.get("old_per_token_logps")' in loss
    assert 'normalizer = inputs["num_items_in_batch"].clamp(min=1.0) / self.accelerator.num_processes' in loss
    assert "normalizer * self.current_gradient_accumulation_steps / self.args.steps_per_generation" in loss


def test_a_rollout_scores_with_the_policy_before_the_reference():
    rollout = source("_generate_and_score_completions")
    policy, reference = (rollout.index(name) for name in ("old_per_token_logps, _, _ =", "ref_per_token_logps, _, _ ="))
    assert policy < reference
    assert "if self.beta != 0.0:" in rollout[policy:reference]
    assert 'output["ref_per_token_logps"]' in rollout


def test_a_rollout_is_buffered_in_as_many_parts_as_steps():
    prepare = source("_prepare_inputs")
    assert "generate_every = self.args.steps_per_generation * self.num_iterations" in prepare
    assert "self._buffered_inputs[self._step % self.args.steps_per_generation]" in prepare


def test_rewards_come_one_row_per_completion_of_all_ranks():
    assert list(inspect.signature(GRPOTrainer._calculate_rewards).parameters)[1:] == [
        *("inputs", "prompts", "completions", "completion_ids_list"),
    ]
    assert "process_slice = slice(" in source("_generate_and_score_completions")


def test_the_fused_head_reads_the_backbone_that_the_critic_reads():
    head = inspect.getsource(utils.add_fused_lm_head)
    assert 'backbone_attr = "base_model"' in head
    assert "hidden_states = backbone_outputs.last_hidden_state[:, :-1]" in head


def test_the_trainer_clips_saves_and_loads_where_we_do():
    assert list(inspect.signature(Trainer._clip_grad_norm).parameters) == ["self", "model"]
    assert list(inspect.signature(Trainer._save).parameters) == ["self", "output_dir", "state_dict"]
    assert "model.load_state_dict(state_dict, False)" in source("_load_from_checkpoint", Trainer)
