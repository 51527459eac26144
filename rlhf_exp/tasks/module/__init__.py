"""A task of your own in a Python file, with the functions that the tasks of the package have: docs/own_task.md."""
