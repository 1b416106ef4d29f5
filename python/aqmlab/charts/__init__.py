"""Charts, which are tables with drawing instructions. A chart is saved as pictures."""
