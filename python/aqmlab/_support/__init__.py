"""Internal helper modules for all packages: files, error messages, progress bars and checks of arguments."""
