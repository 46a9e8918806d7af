"""The command line: one module per family of commands, and ``render``, which says how their results look."""
