"""rlhf_exp: a thin experiment layer over TRL."""
