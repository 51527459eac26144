"""Samples completions of training prompts from the start model, from which pairs and demonstrations are made."""
