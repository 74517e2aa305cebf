"""The command line: arguments, commands, progress."""
