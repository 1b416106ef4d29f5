"""The explorer: a page on which a sweep is looked at from all sides."""
