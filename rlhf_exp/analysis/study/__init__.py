"""`python -m rlhf_exp study NAME`: stages of runs, each with what it needs of earlier ones."""
