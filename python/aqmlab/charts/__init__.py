"""Charts: a table with the columns to draw, saved as pictures."""
