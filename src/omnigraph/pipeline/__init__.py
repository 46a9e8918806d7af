"""Pipeline files: parse them, and plan them against a graph. Spark is not used here; ``spark/pipeline`` runs plans."""
