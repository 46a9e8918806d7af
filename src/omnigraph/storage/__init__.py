"""One thing at a time: a place, an object, a lock, a Lance table. What makes many of them one graph is above."""
