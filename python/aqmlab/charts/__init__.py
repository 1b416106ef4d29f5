"""Charts: tables with instructions for drawing, which are saved as pictures."""
