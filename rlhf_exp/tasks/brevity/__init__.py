"""Brevity: prompts of any kind; the reward depends only on the number of words."""
