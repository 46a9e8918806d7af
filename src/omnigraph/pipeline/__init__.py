"""Pipeline files: read, planned and checked against a graph. No Spark here; ``spark/pipeline`` runs them."""
