"""What we rely on in TRL and transformers beyond documented arguments; fails loudly when they move it."""

import inspect
import re

import pytest
from transformers import GenerationMixin, Trainer
from trl import DistillationTrainer, DPOTrainer, GRPOTrainer, RewardTrainer, RLOOTrainer, SFTTrainer
from trl.generation.vllm_generation import VLLMGeneration
from trl.models.utils import unwrap_model_for_generation
from trl.trainer import utils

from rlhf_exp import processes

SAMPLERS = (GRPOTrainer, RLOOTrainer)
MEAN_PER_COMPLETION = "((per_token_loss * mask).sum(-1) / mask.sum(-1).clamp(min=1.0)).mean()"
HOLDS = [
    # A rollout is made by our function, and its log-probabilities are computed where it returns none.
    (GRPOTrainer._generate, "self.rollout_func(prompts, self)"),
    (GRPOTrainer._generate, 'required_keys = {"prompt_ids", "completion_ids", "logprobs"}'),
    (GRPOTrainer._generate_and_score_completions, "if sampling_per_token_logps_list is not None:"),
    *((GRPOTrainer, f"self.{name}") for name in (
        "generation_config", "temperature", "top_p", "top_k", "eos_token_ids", "_tokenizer", "model_wrapped")),
    *((trainer._generate_single_turn, "generation_config=self.generation_config") for trainer in SAMPLERS),
    *((trainer.__init__, f"self.{name} = ") for trainer in SAMPLERS
      for name in ("use_vllm", "use_transformers_continuous_batching")),
    # It is buffered in as many parts as steps, and PPO's rewards are one row per completion of all ranks.
    (GRPOTrainer._prepare_inputs, '"train" if self.model.training else "eval"'),
    (GRPOTrainer._prepare_inputs, "generate_every = self.args.steps_per_generation * self.num_iterations"),
    (GRPOTrainer._prepare_inputs, "self._buffered_inputs[self._step % self.args.steps_per_generation]"),
    (GRPOTrainer._generate_and_score_completions, '"advantages": advantages,'),
    (GRPOTrainer._generate_and_score_completions, '"completion_mask": completion_mask,'),
    (GRPOTrainer._generate_and_score_completions, "if self.beta != 0.0:"),
    (GRPOTrainer._generate_and_score_completions, 'output["ref_per_token_logps"]'),
    (GRPOTrainer._generate_and_score_completions, "process_slice = slice("),
    # The loss takes the batch's advantages, per completion or per token, and the rollout's log-probabilities.
    (GRPOTrainer._compute_loss, 'advantages = inputs["advantages"]'),
    (GRPOTrainer._compute_loss, "if advantages.dim() == 1:"),
    (GRPOTrainer._compute_loss, 'inputs.get("old_per_token_logps")'),
    (GRPOTrainer._compute_loss, 'if self.loss_type in ["grpo", "sapo"]:'),
    (GRPOTrainer._compute_loss, MEAN_PER_COMPLETION),
    (GRPOTrainer._compute_loss, "per_token_loss = -torch.min(per_token_loss1, per_token_loss2)"),
    (GRPOTrainer._compute_loss, 'inputs["num_items_in_batch"].clamp(min=1.0) / self.accelerator.num_processes'),
    (GRPOTrainer._compute_loss, "self.current_gradient_accumulation_steps / self.args.steps_per_generation"),
    (GRPOTrainer.__init__, "self.loss_type = args.loss_type"),
    # The budget is copied to the places where a stage sets it.
    (GRPOTrainer.__init__, '"max_new_tokens": self.max_completion_length,'),
    (GRPOTrainer.__init__, "self.generation_kwargs = generation_kwargs"),
    (GRPOTrainer._generate_single_turn, "generation_kwargs=self.generation_kwargs"),
    (GRPOTrainer._compute_loss, "per_token_loss.size(0) * self.max_completion_length"),
    (VLLMGeneration.generate, "max_completion_length = self.max_completion_length"),
    # TRL saves and reads the adaptive entropy's coefficient.
    (GRPOTrainer._save_checkpoint, "entropy_ctrl_state.json"),
    (GRPOTrainer._load_optimizer_and_scheduler, "entropy_ctrl_state.json"),
    # The pass that is trimmed.
    *((trainer.__init__, f"self.{name} = args.{name}") for trainer in SAMPLERS
      for name in ("pad_to_multiple_of", "max_completion_length")),
    *((trainer._get_per_token_logps_and_entropies,
       "labels = input_ids_batch.masked_fill(attention_mask_batch == 0, -100)") for trainer in SAMPLERS),
    # The critic reads the backbone that the fused head reads.
    (utils.add_fused_lm_head, 'backbone_attr = "base_model"'),
    (utils.add_fused_lm_head, "hidden_states = backbone_outputs.last_hidden_state[:, :-1]"),
    # Checkpoints: into the folder that is asked for, and only through transformers.
    (Trainer._save_checkpoint, 'f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"'),
    *((trainer._save_checkpoint, "super()._save_checkpoint(model, trial)")
      for trainer in (SFTTrainer, DPOTrainer, RewardTrainer, GRPOTrainer)),
    (Trainer._load_from_checkpoint, "model.load_state_dict(state_dict, False)"),
    # Training goes epoch by epoch, and looks after each whether to stop.
    (Trainer._inner_training_loop, "if self.control.should_training_stop:\n                break"),
    (VLLMGeneration._init_vllm, "self.llm = LLM("),
    # Distillation: one rollout in a step, whose backbones TRL calls; no log-probabilities of tokens.
    (DistillationTrainer.__init__, "self.use_vllm = args.use_vllm"),
    (DistillationTrainer.__init__, "self._logs = {"),
    (DistillationTrainer.__init__, "self.accelerator.prepare_model(teacher_model, evaluation_mode=True)"),
    (DistillationTrainer._generate, "return prompt_ids, completion_ids, "),
    (DistillationTrainer._generate_single_turn, "generation_config=self.generation_config"),
    (DistillationTrainer._generate_single_turn, "return completion_ids"),
    (DistillationTrainer._prepare_inputs, "generate_every = self.args.gradient_accumulation_steps"),
    (DistillationTrainer._get_last_hidden_state, "backbone = unwrapped_model.base_model"),
    (DistillationTrainer._compute_loss, "teacher_lm_head.weight"),
    (DistillationTrainer._save_checkpoint, "super()._save_checkpoint(model, trial)"),
]  # fmt: skip


@pytest.mark.parametrize(("of", "text"), HOLDS)
def test_the_source_holds(of, text):
    assert text in inspect.getsource(of)


ORDERS = [
    (GRPOTrainer._prepare_inputs,
     ["self._generate_and_score_completions(", "shuffle_sequence_dict(", "split_tensor_dict("]),
    (GRPOTrainer._generate_and_score_completions, ["old_per_token_logps, _, _ =", "ref_per_token_logps, _, _ ="]),
    (Trainer._save_checkpoint,
     ["run_dir = self._get_output_dir(trial=trial)", "output_dir = os.path.join(run_dir, checkpoint_folder)",
      "self.save_model(output_dir, _internal_call=True)", "rotate_checkpoints(\n                output_dir=run_dir,"]),
    (Trainer._maybe_log_save_evaluate, ["self._save_checkpoint(model, trial)", "callback_handler.on_save("]),
    (Trainer._inner_training_loop, ["on_train_begin(", "self._run_epoch(\n                model=model,"]),
    # A watermark, by which our random numbers enter, comes after all other processors.
    (GenerationMixin._get_logits_processor,
     ["_merge_criteria_processor_list(processors", "EtaLogitsWarper(", ".watermarking_config.construct_processor("]),
]  # fmt: skip


@pytest.mark.parametrize(("of", "texts"), ORDERS)
def test_the_source_has_an_order(of, texts):
    assert sorted(texts, key=inspect.getsource(of).index) == texts


LACKS = [
    (GRPOTrainer._compute_loss, "args.loss_type", ""),
    (GRPOTrainer.__init__, 'not in ["grpo"', ""),
    *((method, "args.max_completion_length", "")
      for method in (GRPOTrainer._generate_single_turn, GRPOTrainer._compute_loss, GRPOTrainer._generate)),
    (Trainer._save_checkpoint, "self.args.output_dir", ""),
    *((trainer._save_checkpoint, "self.args.output_dir", "super()._save_checkpoint(model, trial)")
      for trainer in (SFTTrainer, DPOTrainer, RewardTrainer, GRPOTrainer)),
    (GenerationMixin._get_logits_processor, "Warper", "construct_processor("),
]  # fmt: skip


@pytest.mark.parametrize(("of", "text", "after"), LACKS)
def test_the_source_lacks(of, text, after):
    source = inspect.getsource(of)
    assert text not in (source.rpartition(after)[2] if after else source)


SIGNATURES = [
    *((trainer._generate_and_score_completions, "self inputs") for trainer in SAMPLERS),
    (GRPOTrainer._calculate_rewards, "self inputs prompts completions completion_ids_list"),
    (GRPOTrainer._tokenize_prompts, "self prompts"),
    (DistillationTrainer._generate_and_score_completions, "self inputs"),
    (DistillationTrainer._generate_single_turn, "self prompt_ids images multimodal_fields has_tool_images"),
    (DistillationTrainer._compute_loss, "self unwrapped_student inputs num_items_in_batch"),
    (unwrap_model_for_generation,
     "model accelerator gather_deepspeed3_params generation_kwargs gradient_checkpointing_kwargs"),
    (Trainer._clip_grad_norm, "self model"),
    (Trainer._save, "self output_dir state_dict"),
]  # fmt: skip


@pytest.mark.parametrize(("of", "names"), SIGNATURES)
def test_the_arguments_are(of, names):
    assert list(inspect.signature(of).parameters) == names.split()


@pytest.mark.parametrize("trainer", SAMPLERS)
def test_trl_has_the_pass_that_is_trimmed(trainer):
    parameters = inspect.signature(trainer._get_per_token_logps_and_entropies).parameters
    names = "self model input_ids attention_mask logits_to_keep batch_size compute_entropy compute_aux_loss"
    assert list(parameters)[:8] == names.split()
    assert all(parameter.default is None for parameter in list(parameters.values())[8:]), "None where rows are text"


def test_trl_leaves_to_us_what_an_engine_on_a_cpu_is_given():
    source = inspect.getsource(VLLMGeneration._init_vllm)
    assert not re.search("dtype=|enforce_eager=|use_tqdm_on_load=", source)
    assert set(re.findall(r'os.environ\["(\w+)"\]', source)) <= set(processes.SET_BY_TORCHRUN)
