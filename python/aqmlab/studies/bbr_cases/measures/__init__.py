"""The measures of the test cases, by subject.

`sender.py` reads the tables of a run. The other modules define the measures: `states.py` defines the measures
of BBR's states, `application.py` and `link.py` define the measures of the cases in which the application or
the link limits the sender, and `losses.py` defines the measures of losses, spurious retransmissions and
timeouts.
"""
