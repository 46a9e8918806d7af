"""Many datasets as one graph: the manifest, its fence, its history, its branches and its schema contract."""
