"""Parts of a simulation that are classes of Python."""

from __future__ import annotations

import hashlib
import types
from typing import TYPE_CHECKING, Any, Iterable, Mapping, Optional, Sequence, Union

if TYPE_CHECKING:
    import random

    from ._native import Ack, Copy, Packet, Path, Unsent, Wait


class PartError(RuntimeError):
    """A class that a plan names raised, or answered what cannot be. Its cause is what it raised, with the traceback.

    :ivar hook: the method, as ``Aimd.on_ack``.
    :ivar seconds: the simulated time; 0 for ``__init__``, and for ``on_idle`` when it was last told something before.
    """

    def __init__(self, hook: str, seconds: float, cause: BaseException):
        super().__init__(f"{hook}, at {seconds:.9f} s of simulated time: {type(cause).__name__}: {cause}")
        self.hook = hook
        self.seconds = seconds
        self._made_of = (hook, seconds, cause)

    def __reduce__(self):
        return (type(self), self._made_of)


def _default(hook):
    """Marks what a class need not have, so that it is not called for nothing."""
    hook._is_default = True
    return hook


class _Part:
    """What it is made with, and the parameters that the plan gives, are its attributes."""

    #: Which place in a plan it takes.
    _kind: str
    #: What objects are made with, beside parameters.
    _given: tuple = ()

    def __init__(self, **given: Any):
        self.__dict__.update(given)

    @classmethod
    def _check(cls, parameters: Mapping[str, Any]) -> None:
        """Refuses parameters that the class does not have."""
        known = sorted(_parameters(cls))
        for name in parameters:
            if name not in known:
                raise TypeError(f"{cls.__name__} has no parameter {name!r}: there are {', '.join(known) or 'none'}")


class Scheme(_Part):
    """A scheme on MPTCP: what is sent once more, when a connection has nothing new to send.

    One object serves one connection. A plan's scheme names the class as its ``kind``; it may have the keys of ``mptcp``
    and a table ``parameters``, whose values take the place of the attributes of the class.

    :ivar subflows: how many paths there are.
    """

    _kind = "scheme"
    _given = ("subflows",)

    #: Sub-flows, unless the plan says otherwise: 1 to 14.
    subflows: int = 4
    #: Whether the receiver hands segments on that arrive out of their sub-flow's order (FUSO section III-C).
    early_delivery: bool = True

    def on_opportunity(self, now: float, paths: Sequence[Path]) -> Union[Copy, Wait, None]:
        """Nothing new can be sent, and some path has room: what to send once more.

        Asked again until it answers ``None``, or :class:`Wait`, or no path has room. Whatever it sends is within the
        window of the path that carries it.

        :param now: simulated time in seconds.
        :param paths: the sub-flows, by their number.
        """
        raise NotImplementedError(f"{type(self).__name__} has no on_opportunity")

    @_default
    def on_sent(self, now: float, path: int, packet: int, again: bool) -> None:
        """A segment left, which is not a copy of this scheme; ``again`` if it is a retransmission."""

    @_default
    def on_acked(self, now: float, path: int) -> None:
        """An acknowledgement arrived on a path."""

    @_default
    def on_timeout(self, now: float, path: int) -> None:
        """The retransmission timer of a path ran out."""


class Controller(_Part):
    """A congestion controller: what becomes of the window when something happens.

    One object serves one sub-flow. TCP decides what a loss is, one for each window of data, and looks at ``window``
    after every call. A plan's ``tcp`` names the class as ``congestion``, with ``congestion_parameters``.

    :ivar window: in segments; a fraction is kept and counts for nothing. The initial window at first.
    """

    _kind = "controller"
    _given = ("window",)

    window: float
    #: Whether the window grows by what is acknowledged; coupled controllers of other sub-flows look at it.
    in_slow_start: bool = False

    def on_ack(self, ack: Ack) -> None:
        """New segments were acknowledged."""
        raise NotImplementedError(f"{type(self).__name__} has no on_ack")

    def on_loss(self, now: float, flight: int) -> None:
        """Fast recovery begins with ``flight`` segments outstanding."""
        raise NotImplementedError(f"{type(self).__name__} has no on_loss")

    def on_mark(self, now: float, flight: int) -> None:
        """A mark of congestion (ECN) was echoed for the first time in a window; as a loss unless it says otherwise."""
        self.on_loss(now, flight)

    def on_timeout(self, now: float, flight: int, first: bool) -> None:
        """The retransmission timer ran out; ``first`` unless it did for the same segment before."""
        if first:
            self.on_loss(now, flight)
        self.window = 1.0

    def on_idle(self, initial: int) -> None:
        """Nothing was sent for a retransmission timeout: the window is the initial one again, at most."""
        self.window = min(self.window, float(initial))


class Scheduler(_Part):
    """Which path takes the next new segment.

    One object serves one connection. A plan's ``tcp`` names the class as ``scheduler``, with ``scheduler_parameters``.

    :ivar subflows: how many paths there are.
    """

    _kind = "scheduler"
    _given = ("subflows",)

    subflows: int

    def choose(self, now: float, paths: Sequence[Path], unsent: Unsent) -> Optional[int]:
        """The number of a path with room, or ``None`` to wait until something is acknowledged.

        :param paths: the sub-flows, by their number. One that opens or repairs losses has no room.
        :param unsent: what is to be sent.
        """
        raise NotImplementedError(f"{type(self).__name__} has no choose")


class LossModel(_Part):
    """Which packets a link loses.

    One object serves one direction of a link. A plan's fault names the class as ``model``, with ``parameters``.

    :ivar random: a :class:`random.Random` of its own, seeded by the run: any other makes runs differ.
    """

    _kind = "loss"
    _given = ("random",)

    random: random.Random

    def lose(self, packet: Packet) -> bool:
        """Whether this packet is lost. Asked once for each, in their order."""
        raise NotImplementedError(f"{type(self).__name__} has no lose")


_BASES = (_Part, Scheme, Controller, Scheduler, LossModel)


def _parameters(cls: type[_Part]) -> set[str]:
    """Attributes of a class that a plan may set."""
    names: set[str] = set()
    for base in cls.__mro__:
        if base not in _BASES and base is not object:
            names.update(name for name, value in vars(base).items() if not callable(value) and not name.startswith("_"))
    return names - set(cls._given) - {"early_delivery", "name"}


def brought(uses: Iterable[type]) -> tuple:
    """Classes as the native half takes them: kind, name and class of each, and what stands for all they do."""
    found: dict = {}
    for cls in uses:
        if not (isinstance(cls, type) and issubclass(cls, _Part) and hasattr(cls, "_kind")) or cls in _BASES:
            raise TypeError(f"{cls!r} is no class made from Scheme, Controller, Scheduler or LossModel")
        name = cls.__dict__.get("name", cls.__name__)
        if (cls._kind, name) in found:
            raise TypeError(f"two classes of one kind are called {name!r}")
        found[cls._kind, name] = cls
    version = hashlib.sha256()
    for (kind, name), cls in sorted(found.items(), key=lambda item: item[0]):
        version.update(f"{kind} {name}\n".encode())
        for base in cls.__mro__:
            if base not in _BASES and base is not object:
                version.update(repr(_behaviour(vars(base))).encode())
    return [(kind, name, cls) for (kind, name), cls in found.items()], version.hexdigest() if found else ""


def _behaviour(attributes: Mapping[str, Any]) -> list:
    """What the attributes of a class do, as far as code tells: it is the same when the class is read again."""
    return [(name, _told(value)) for name, value in sorted(attributes.items()) if name not in _INCIDENTAL]


_INCIDENTAL = {"__module__", "__doc__", "__dict__", "__weakref__", "__firstlineno__", "__static_attributes__"}


def _told(value: Any) -> Any:
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    if isinstance(value, property):
        return [_told(part) for part in (value.fget, value.fset, value.fdel)]
    if isinstance(value, types.FunctionType):
        return (_told(value.__code__), _told(value.__defaults__), _told(value.__kwdefaults__))
    if isinstance(value, types.CodeType):
        return (value.co_code, value.co_names, [_told(constant) for constant in value.co_consts])
    if isinstance(value, (set, frozenset)):
        return ["set", *sorted(repr(_told(one)) for one in value)]
    if isinstance(value, (tuple, list)):
        return [type(value).__name__, *map(_told, value)]
    if isinstance(value, dict):
        return ["dict", *((_told(key), _told(one)) for key, one in value.items())]
    if isinstance(value, type) or callable(value):
        return getattr(value, "__qualname__", type(value).__qualname__)
    # What others say of themselves may be where they are in memory.
    return type(value).__qualname__ if type(value).__repr__ is object.__repr__ else repr(value)
