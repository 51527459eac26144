"""The command that shows runs in a browser: an index of a folder of runs, and live pages of those still running."""
