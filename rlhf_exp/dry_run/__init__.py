"""`dry_run=true`: every check, and what the run will be: five lines, or a line for each job of a sweep; with
`verbose=true` also every figure, the chosen defaults, and a prompt as it is read."""
