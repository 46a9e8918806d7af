"""Maintain a graph while it is in use: optimize, cleanup, repair, verify."""
