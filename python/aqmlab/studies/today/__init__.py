"""The studies' main questions, asked of today's queues: a module for each study that has such a form.

Each takes the paper's own scenario, traffic and TCP, puts the queues of `queues.py` beside the paper's, and
judges the paper's claims with each of them in the place of the queue that the paper is for."""
