"""The prompt of ``omnigraph shell``: lines become statements, statements are run, words are completed."""

from omnigraph.cli.shell.prompt import Prompt, open_prompt
from omnigraph.cli.shell.runner import ShellRunner
from omnigraph.cli.shell.statements import StatementReader

__all__ = ["Prompt", "ShellRunner", "StatementReader", "open_prompt"]
