"""Window rules in Python: pass a subclass of `CongestionControl` where a scheme is expected."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from lasthop.errors import InputError

if TYPE_CHECKING:
    from lasthop._native import Ack, Loss, Window


class CongestionControl:
    """Base class of window rules. The sender creates one object per flow and calls its methods.

    `window.cwnd` and `window.ssthresh` are in bytes and may be changed. Only `on_ack` is required.
    Without `on_loss` the rule reacts to loss as Reno does (RFC 5681, section 3.1). `recovery` names
    the loss recovery.

    >>> class Gentle(CongestionControl):
    ...     def on_ack(self, window, ack):
    ...         window.cwnd += ack.mss * ack.bytes / window.cwnd
    >>> lasthop.compare("cell.toml", schemes=["reno", Gentle])           # doctest: +SKIP
    """

    #: Name in tables and figures; if empty, the name of the class.
    label: ClassVar[str] = ""
    #: Loss recovery, such as "newreno" or "rack+prr+f-rto"; if empty, that of the profile, or
    #: NewReno.
    recovery: ClassVar[str] = ""

    def on_ack(self, window: Window, ack: Ack) -> None:
        """Handle an ACK of new data outside of recovery."""
        raise NotImplementedError(f"{type(self).__name__} must define on_ack(window, ack)")

    def on_loss(self, window: Window, loss: Loss) -> None:
        """Handle a loss; `loss.kind` is "duplicate-acks", "timeout" or "ecn".

        Default: `loss.halve(window)`, Reno's reduction.
        """
        loss.halve(window)

    def on_dupack(self, window: Window, now_s: float, count: int) -> None:
        """Handle the `count`-th duplicate ACK in a row at time `now_s` (seconds). Default:
        nothing.
        """

    def on_recovered(self, window: Window, now_s: float) -> None:
        """Handle the end of recovery at time `now_s` (seconds). Default: nothing.

        Recovery ends when all data outstanding at the loss is acknowledged.
        """


def load_scheme(scheme: str) -> str | type[CongestionControl]:
    """Load the class that `FILE.py:CLASS` names; return any other text, a catalogue name,
    unchanged.

    Raises `InputError` if the file or the class does not exist or cannot be loaded.
    """
    file, colon, name = scheme.rpartition(":")
    if not colon or not file.endswith(".py"):
        if scheme.endswith(".py"):
            raise InputError(
                f"{scheme}: which class? Write {scheme}:CLASS, a subclass of"
                " lasthop.CongestionControl"
            )
        return scheme
    # Imported here, so that runs without a Python rule start faster.
    import importlib.util
    import sys
    import traceback
    from pathlib import Path

    path = Path(file)
    if not path.is_file():
        raise InputError(f"{scheme}: there is no file {file}")
    key = f"lasthop_scheme_{path.resolve().as_posix()}"
    module = sys.modules.get(key)
    if module is None:
        spec = importlib.util.spec_from_file_location(key, path)
        if spec is None or spec.loader is None:
            raise InputError(f"{scheme}: {file} cannot be loaded as Python")
        module = importlib.util.module_from_spec(spec)
        # The file can import modules from its folder, as if Python ran it.
        if str(path.resolve().parent) not in sys.path:
            sys.path.append(str(path.resolve().parent))
        # `inspect` looks up the source of a class by its module.
        sys.modules[key] = module
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:
            del sys.modules[key]
            lines = [
                frame.lineno
                for frame in traceback.extract_tb(error.__traceback__)
                if frame.filename == str(path)
            ]
            line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
            raise InputError(
                f"{scheme}: line {line or '?'} of {file}: {type(error).__name__}: {error}"
            ) from error
    rule = getattr(module, name, None)
    if not isinstance(rule, type) or not issubclass(rule, CongestionControl):
        rules = [
            n
            for n, v in vars(module).items()
            if isinstance(v, type)
            and issubclass(v, CongestionControl)
            and v is not CongestionControl
        ]
        raise InputError(
            f"{scheme}: {file} has no subclass `{name}` of lasthop.CongestionControl; it has:"
            f" {', '.join(rules) or 'none'}"
        )
    return rule
