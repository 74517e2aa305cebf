"""What scenarios are: files and values of Python, read and checked."""
