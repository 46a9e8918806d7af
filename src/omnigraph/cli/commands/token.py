"""``omnigraph token``: create, list and revoke the tokens of a server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from omnigraph.cli.render.token_file import NewToken, RevokedToken, TokenListing
from omnigraph.cli.session import require_server_extra, session_of

app = typer.Typer(help="Create, list and revoke tokens for a server.", rich_markup_mode=None)

TokensFile = Annotated[Path, typer.Option("--tokens", metavar="FILE", help="The file that keeps them.")]
_DEFAULT_FILE = Path("tokens.json")


@app.command()
def create(
    context: typer.Context,
    actor: Annotated[str, typer.Option("--actor", help="Who commits are recorded under.", show_default=False)],
    role: Annotated[Literal["read", "write", "admin"], typer.Option("--role", help="What it may do at most.")] = "read",
    name: Annotated[
        str | None, typer.Option("--name", metavar="TEXT", help="What it is for.", show_default=False)
    ] = None,
    expires: Annotated[str, typer.Option("--expires", metavar="90d|12h|never", help="When it ends.")] = "90d",
    tokens: TokensFile = _DEFAULT_FILE,
) -> int:
    """Create a token and print it, once. The file keeps only its digest; a running server knows it at once.

    \b
    Examples:
      omnigraph token create --actor act-ines --role write --name laptop --expires 90d
      omnigraph token create --actor act-robot --expires 12h --tokens tokens.json
    """
    require_server_extra()
    from omnigraph import server

    token, text = server.create_token(tokens, actor, server.Role(role), name, server.parse_lifetime(expires))
    session_of(context).output.show(NewToken(token, text))
    return 0


@app.command("list")
def list_(context: typer.Context, tokens: TokensFile = _DEFAULT_FILE) -> int:
    """List the tokens of a file.

    \b
    Examples:
      omnigraph token list --tokens tokens.json
      omnigraph token list --json
    """
    require_server_extra()
    from omnigraph import server

    session_of(context).output.show(TokenListing(server.read_token_file(tokens)))
    return 0


@app.command()
def revoke(
    context: typer.Context,
    token_id: Annotated[str, typer.Argument(metavar="ID", help="The id that `token list` shows.", show_default=False)],
    tokens: TokensFile = _DEFAULT_FILE,
) -> int:
    """Revoke a token. A running server refuses it from now on.

    \b
    Examples:
      omnigraph token revoke 01JCZ5K3V8W9X0Y1Z2A3B4C5D6
      omnigraph token revoke 01JCZ5K3V8W9X0Y1Z2A3B4C5D6 --tokens tokens.json
    """
    require_server_extra()
    from omnigraph import server

    session_of(context).output.show(RevokedToken(server.revoke_token(tokens, token_id)))
    return 0
