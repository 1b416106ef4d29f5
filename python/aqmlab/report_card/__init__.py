"""Report cards: how a queue behaves in the scenarios of RFC 7928, beside Drop Tail, as a study.

N. Kuhn et al.: Characterization Guidelines for Active Queue Management (AQM), RFC 7928, July 2016. The RFC
is informational and characterises: it sets no limits and ranks nothing, and neither does a card."""

from aqmlab.report_card.card import Card
from aqmlab.report_card.study import of_card, study

__all__ = ["Card", "of_card", "study"]
