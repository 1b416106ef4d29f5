"""Report cards: studies that compare a queue with Drop Tail in the scenarios of RFC 7928.

N. Kuhn et al.: Characterization Guidelines for Active Queue Management (AQM), RFC 7928, July 2016. The RFC is
informational, and its purpose is to characterise queues. Neither the RFC nor a card sets limits or ranks
queues."""

from aqmlab.report_card.card import Card
from aqmlab.report_card.study import of_card, study

__all__ = ["Card", "of_card", "study"]
