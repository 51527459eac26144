"""HH-RLHF: two answers of an assistant to one dialogue, and which of them a person preferred."""
