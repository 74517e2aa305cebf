"""The errors that lasthop raises on purpose."""


class InputError(ValueError):
    """Wrong usage or input: a file, an option, a value. The message is complete and meant for people."""


class Interrupted(Exception):
    """A run ended early because it was cancelled; nothing of it is kept."""


class CheckFailed(Exception):
    """A check of the simulator's own verifier failed: the result of that run must not be used."""
