"""Lets Spark discover ``format("omnigraph")``; nothing else."""
