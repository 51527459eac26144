"""The command line before and around a run: arguments, help, one-line errors, sweeps; nothing here imports torch."""
