"""Your own rows: a file or a data set of the hub, a template for the prompt, a checker for the answer."""
