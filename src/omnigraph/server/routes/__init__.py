"""All routes. Each module has those of one family, and declares beside each path what it asks of the gate."""

from omnigraph.server.routes import (
    about,
    blobs,
    feed,
    history,
    operations,
    policy,
    query,
    refs,
    rows,
    schema,
    stored,
    write,
)

ROUTES = (
    *about.ROUTES,
    *query.ROUTES,
    *stored.ROUTES,
    *rows.ROUTES,
    *blobs.ROUTES,
    *write.ROUTES,
    *schema.ROUTES,
    *refs.ROUTES,
    *history.ROUTES,
    *feed.ROUTES,
    *policy.ROUTES,
    *operations.ROUTES,
)

__all__ = ["ROUTES"]
