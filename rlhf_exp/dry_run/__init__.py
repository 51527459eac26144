"""`dry_run=true`: every check, and what the run will be: size, cost, chosen defaults, a prompt as it is read."""
