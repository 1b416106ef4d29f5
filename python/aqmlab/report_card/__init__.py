"""Report cards: how a queue behaves in the scenarios of RFC 7928, beside Drop Tail.

N. Kuhn et al.: Characterization Guidelines for Active Queue Management (AQM), RFC 7928, July 2016. The RFC
is informational and characterises: it sets no limits and ranks nothing, and neither does a card."""

from aqmlab.report_card.characterisation import Card, Characterisation
from aqmlab.report_card.values import FILE, Values, measure

__all__ = ["FILE", "Card", "Characterisation", "Values", "measure"]
