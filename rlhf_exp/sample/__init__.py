"""Sampling completions of training prompts from the start model, to make pairs and demonstrations of."""
