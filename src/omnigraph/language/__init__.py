"""The two languages, ``.pg`` for schemas and ``.gq`` for queries, as pure functions of text.

Nothing here touches storage, Lance or Spark; every other room may use this one.
"""
