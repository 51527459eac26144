"""The command that sends prompts to the model of a run, and to its start model."""
