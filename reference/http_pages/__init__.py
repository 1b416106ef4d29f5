"""Recorded pages that real HTTP clients fetched from real servers across an emulated link."""
