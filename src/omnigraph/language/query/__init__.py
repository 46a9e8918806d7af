"""`.gq`: grammar, parser, type checker, parameters, lint, logical plan."""
