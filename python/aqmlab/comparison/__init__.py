"""Queues and TCPs side by side, and the rate of connections that offers a load."""
