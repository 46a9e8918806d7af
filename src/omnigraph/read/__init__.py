"""Everything that reads a snapshot: queries, scans, search, export. Nothing here writes to the graph."""
