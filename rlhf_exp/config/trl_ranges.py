"""Tables of what TRL's arguments may be, beyond their types: ranges, closed choices, old names, secrets.

TRL accepts `learning_rate=1e9`, `beta=-1` and `scale_rewards="nope"` and fails late or never. Upper bounds are far
above any value in use, so that a value beyond them is a typing mistake.
"""

_COUNT, _SHARE, _WEIGHT, _STEPS = ">= 1, <= 65536", ">= 0, <= 1", ">= 0, <= 1000", ">= 1, <= 10000000"
_POSITIVE, _TOKENS, _SECONDS = "> 0, <= 1000", ">= 1, <= 10000000", "> 0, <= 31536000"
RANGES = {
    # optimizer and schedule
    "learning_rate": "> 0, <= 1",
    "weight_decay": ">= 0, <= 10",
    "adam_beta1": ">= 0, < 1",
    "adam_beta2": ">= 0, < 1",
    "adam_epsilon": "> 0, <= 1",
    "max_grad_norm": ">= 0, <= 1000000",
    "warmup_steps": ">= 0, <= 10000000",
    "max_steps": f"{_STEPS} or -1",
    "num_train_epochs": "> 0, <= 100000",
    "label_smoothing_factor": ">= 0, < 1",
    "label_smoothing": ">= 0, < 0.5",
    "neftune_noise_alpha": ">= 0, <= 1000",
    "seed": ">= 0, <= 4294967295",
    "data_seed": ">= 0, <= 4294967295",
    # batches
    "per_device_train_batch_size": _COUNT,
    "per_device_eval_batch_size": _COUNT,
    "precompute_ref_batch_size": _COUNT,
    "gradient_accumulation_steps": _COUNT,
    "eval_accumulation_steps": _COUNT,
    "generation_batch_size": ">= 1, <= 16777216",
    "steps_per_generation": _COUNT,
    "num_generations": ">= 2, <= 65536",
    "num_generations_eval": _COUNT,
    "num_iterations": ">= 1, <= 1000",
    "dataloader_num_workers": ">= 0, <= 1024",
    "dataloader_prefetch_factor": ">= 1, <= 1024",
    "dataset_num_proc": ">= 1, <= 1024",
    "pad_to_multiple_of": _COUNT,
    # lengths and sampling
    "max_completion_length": _TOKENS,
    "max_length": _TOKENS,
    "temperature": "> 0, <= 10",
    "top_p": "> 0, <= 1",
    "top_k": ">= 0, <= 10000000",
    "min_p": _SHARE,
    "repetition_penalty": "> 0, <= 10",
    "max_tool_calling_iterations": _COUNT,
    # the loss
    "beta": ">= 0, <= 100",
    "epsilon": "> 0, <= 100",
    "epsilon_high": _POSITIVE,
    "delta": _POSITIVE,
    "sapo_temperature_neg": _POSITIVE,
    "sapo_temperature_pos": _POSITIVE,
    "vespo_k_pos": _WEIGHT,
    "vespo_k_neg": _WEIGHT,
    "vespo_lambda_pos": _WEIGHT,
    "vespo_lambda_neg": _WEIGHT,
    "top_entropy_quantile": _SHARE,
    "entropy_coef": ">= 0, <= 100",
    "entropy_coef_min": ">= 0, <= 100",
    "entropy_coef_max": ">= 0, <= 100",
    "entropy_coef_delta": ">= 0, <= 100",
    "entropy_target": ">= 0, <= 100",
    "ref_model_mixup_alpha": _SHARE,
    "ref_model_sync_steps": _STEPS,
    "off_policy_mask_threshold": _POSITIVE,
    "reward_weights": ">= -1000, <= 1000",
    "loss_weights": ">= 0, <= 1000",
    "discopop_tau": _POSITIVE,
    "f_alpha_divergence_coef": "> -100, < 100",
    "ld_alpha": _SHARE,
    "center_rewards_coefficient": ">= 0, <= 100",
    "router_aux_loss_coef": ">= 0, <= 100",
    # vLLM
    "vllm_gpu_memory_utilization": "> 0, <= 1",
    "vllm_tensor_parallel_size": ">= 1, <= 1024",
    "vllm_max_model_length": _TOKENS,
    "vllm_importance_sampling_cap": "> 0, <= 1000000",
    "vllm_importance_sampling_clip_max": "> 0, <= 1000000",
    "vllm_importance_sampling_clip_min": ">= 0, <= 1000000",
    "vllm_group_port": ">= 1, <= 65535",
    "vllm_server_port": ">= 1, <= 65535",
    "vllm_server_timeout": _SECONDS,
    # logging and saving; below 1 they are a share of all steps
    "logging_steps": "> 0, <= 10000000",
    "eval_steps": "> 0, <= 10000000",
    "eval_delay": ">= 0, <= 10000000",
    "save_steps": "> 0, <= 10000000",
    "save_total_limit": ">= 1, <= 10000000",
    "num_completions_to_print": ">= 1, <= 16777216",
    # the process
    "ddp_timeout": _SECONDS,
    "ddp_bucket_cap_mb": ">= 1, <= 1048576",
    "local_rank": ">= -1, <= 65536",
    "torch_empty_cache_steps": _STEPS,
}

# Closed choices that TRL annotates as plain text and checks only during training. For losses see algorithms.py.
CHOICES = {
    "scale_rewards": ("group", "batch", "none", True, False),
    "importance_sampling_level": ("token", "sequence"),
    "multi_objective_aggregation": ("sum_then_normalize", "normalize_then_sum"),
    "vllm_mode": ("colocate", "server"),
    "vllm_importance_sampling_mode": ("token_truncate", "token_mask", "sequence_truncate", "sequence_mask"),
}

# TRL also accepts these as JSON text, and fails late for any other text; in YAML write a mapping.
MAPPINGS = (
    *("model_init_kwargs", "generation_kwargs", "chat_template_kwargs", "lr_scheduler_kwargs", "dataset_kwargs"),
    *("activation_checkpointing_kwargs", "transformers_continuous_batching_config"),
)

# transformers 5 silently ignores the old name if the new one is set too, and the configs set the new one.
RENAMED = {
    "gradient_checkpointing": "activation_checkpointing",
    "gradient_checkpointing_kwargs": "activation_checkpointing_kwargs",
}
