"""How the results of commands look, as text and as JSON, one module per family of commands.

A command builds a :class:`~omnigraph.cli.render.output.CommandResult` and shows it; the global options choose the form.
A new family of commands adds a module here and changes nothing else. Commands import the module of their family, not
this package, so that each loads only what it needs.
"""
