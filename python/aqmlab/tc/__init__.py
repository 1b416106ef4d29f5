"""Linux's `tc`, both ways: commands that configure a scenario's link, and scenarios that describe what `tc`
shows. Nothing is ever executed."""

from aqmlab.tc.commands import Commands
from aqmlab.tc.networkd import networkd
from aqmlab.tc.read import Reading, TcError, read
from aqmlab.tc.sqm import sqm
from aqmlab.tc.write import write

__all__ = ["Commands", "Reading", "TcError", "networkd", "read", "sqm", "write"]
