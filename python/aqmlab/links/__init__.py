"""Lines of users: descriptions of access links, readers of measurements, and scenarios made from them."""
