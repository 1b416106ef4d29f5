"""The store, which is a folder that contains all finished runs."""

from aqmlab.store.store import FORMAT, INDEX_AFTER, FrameError, Store, StoreFormatError, StoreFull

__all__ = ["FORMAT", "INDEX_AFTER", "FrameError", "Store", "StoreFormatError", "StoreFull"]
