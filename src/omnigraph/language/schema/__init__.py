"""`.pg`: grammar, parser, checks, schema IR, catalog, Arrow schemas, migration plan."""
