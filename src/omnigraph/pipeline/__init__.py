"""Pipeline files: parse them, and plan and check them against a graph. Spark is not used here; ``spark/pipeline`` runs
the plans."""
