"""Writers of the formats of other programs: Flent data files and Mahimahi traces."""
