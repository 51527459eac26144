"""What the variants rely on in TRL; fails loudly when TRL moves it."""

import inspect

from trl import GRPOTrainer
from trl.generation.vllm_generation import VLLMGeneration

source_of = inspect.getsource


def test_a_rollout_is_scored_whole_before_it_is_split_into_minibatches():
    assert list(inspect.signature(GRPOTrainer._generate_and_score_completions).parameters) == ["self", "inputs"]
    source = source_of(GRPOTrainer._prepare_inputs)
    order = ["self._generate_and_score_completions(", "shuffle_sequence_dict(", "split_tensor_dict("]
    assert sorted(order, key=source.index) == order
    assert '"train" if self.model.training else "eval"' in source
    output = source_of(GRPOTrainer._generate_and_score_completions).rpartition("output = {")[2]
    assert '"advantages": advantages,' in output and '"completion_mask": completion_mask,' in output


def test_the_loss_takes_the_batchs_advantages_and_grpos_is_a_mean_per_completion():
    source = source_of(GRPOTrainer._compute_loss)
    assert 'advantages = inputs["advantages"]' in source
    assert 'if self.loss_type in ["grpo", "sapo"]:' in source
    assert "((per_token_loss * mask).sum(-1) / mask.sum(-1).clamp(min=1.0)).mean()" in source
    assert "per_token_loss = -torch.min(per_token_loss1, per_token_loss2)" in source


def test_the_loss_type_is_read_from_the_trainer_and_its_name_is_not_checked_before():
    init = source_of(GRPOTrainer.__init__)
    assert "self.loss_type = args.loss_type" in init
    assert "args.loss_type" not in source_of(GRPOTrainer._compute_loss)
    assert 'not in ["grpo"' not in init


def test_the_budget_is_copied_to_the_places_where_a_stage_sets_it():
    init = source_of(GRPOTrainer.__init__)
    assert "self.max_completion_length = args.max_completion_length" in init
    assert '"max_new_tokens": self.max_completion_length,' in init
    assert "self.generation_kwargs = generation_kwargs" in init
    turn = source_of(GRPOTrainer._generate_single_turn)
    assert "generation_config=self.generation_config" in turn and "generation_kwargs=self.generation_kwargs" in turn
    assert "per_token_loss.size(0) * self.max_completion_length" in source_of(GRPOTrainer._compute_loss)
    assert "max_completion_length = self.max_completion_length" in source_of(VLLMGeneration.generate)
    for method in (GRPOTrainer._generate_single_turn, GRPOTrainer._compute_loss, GRPOTrainer._generate):
        assert "args.max_completion_length" not in source_of(method)


def test_the_adaptive_entropy_controller_is_saved_and_read_by_trl():
    assert "entropy_ctrl_state.json" in source_of(GRPOTrainer._save_checkpoint)
    assert "entropy_ctrl_state.json" in source_of(GRPOTrainer._load_optimizer_and_scheduler)
