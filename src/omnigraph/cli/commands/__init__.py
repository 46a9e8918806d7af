"""The commands, one module per family. A module is imported when one of its commands runs, and by nobody else."""
