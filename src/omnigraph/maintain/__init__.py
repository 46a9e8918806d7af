"""Keeping a graph healthy beside its writers: optimize, cleanup, repair, verify."""
