"""How results look: a form for people and a form for programs, side by side, one module per family of commands.

A command makes a :class:`~omnigraph.cli.render.output.Result` and shows it; the global options chose the form. A new
family of commands adds a module of results here and changes nothing else.
"""
