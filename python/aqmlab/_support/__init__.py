"""Internal foundations of all packages: files, errors, progress, checks of arguments."""
