"""The pipeline on PySpark: sessions, reading, queries, loads and pipelines as files."""
