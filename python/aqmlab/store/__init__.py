"""The store: all runs that were made, in one folder."""

from aqmlab.store.store import FORMAT, INDEX_AFTER, FrameError, Store, StoreFormatError, StoreFull

__all__ = ["FORMAT", "INDEX_AFTER", "FrameError", "Store", "StoreFormatError", "StoreFull"]
