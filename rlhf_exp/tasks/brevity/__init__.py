"""Brevity: any prompts, whatever they ask for; the reward wants few words and nothing else."""
