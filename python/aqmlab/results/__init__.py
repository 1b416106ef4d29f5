"""Tables of finished runs, variables and estimates over these tables, and rules that judge claims."""
