"""Charts, which are tables with instructions for drawing. A chart is saved as pictures."""
