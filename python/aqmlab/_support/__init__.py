"""What every room stands on: files, errors, progress, checks of arguments. Not for users."""
