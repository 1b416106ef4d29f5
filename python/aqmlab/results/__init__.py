"""Tables of finished runs, variables and estimates over them, and rules that judge claims."""
