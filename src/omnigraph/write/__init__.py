"""Everything that makes a commit: staging, rules, the commit section, recovery, and the writers that use them."""
