"""The command line: ``commands``, one module per family, ``render``, how their results look, and what they share."""
