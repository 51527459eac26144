"""Where models come from (source.py), how they are loaded, what they are sampled for and scored by."""
