"""Readers of files that describe a line. Each format is one module; `aqmlab.links.formats` lists the
modules."""
