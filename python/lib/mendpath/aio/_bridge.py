"""How an event loop waits for the transport, whose threads never touch Python."""

from __future__ import annotations

import asyncio
import os
import weakref
from typing import Any, Callable

from .. import _native

os.register_at_fork(after_in_child=_native.forked)


class Bridge:
    """What an event loop is told by. One for each loop; goes with it."""

    def __init__(self, loop: asyncio.AbstractEventLoop):
        self._native = _native.Bridge()
        self._calls: dict[int, Callable[[], None]] = {}
        self._keys = 0
        loop.add_reader(self._native.fileno(), self._ready)

    def ring(self) -> tuple[int, _native.Ring]:
        """Something to poll with, and its key."""
        self._keys += 1
        return self._keys, self._native.ring(self._keys)

    def call(self, key: int, what: Callable[[], None]) -> None:
        """Calls it when the ring of this key has rung, once."""
        self._calls[key] = what

    def forget(self, key: int) -> None:
        """Calls nothing when the ring of this key rings."""
        self._calls.pop(key, None)

    def rouse(self, key: int) -> None:
        """The ring of this key has rung."""
        call = self._calls.pop(key, None)
        if call is not None:
            call()

    async def rung(self, key: int) -> None:
        """Waits until the ring of this key rings. To be called right after a poll that found nothing."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()

        def done() -> None:
            if not future.done() and not loop.is_closed():
                future.set_result(None)

        self._calls[key] = done
        try:
            await future
        finally:
            self.forget(key)

    def _ready(self) -> None:
        for key in self._native.take():
            self.rouse(key)


# Loops hold their bridges, as long as they watch for them. Held here as well, one that somebody waits with would hold
# its loop, through the futures, for ever.
_bridges: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, weakref.ref[Bridge]] = weakref.WeakKeyDictionary()


def here() -> Bridge:
    """The running loop's."""
    loop = asyncio.get_running_loop()
    known = _bridges.get(loop)
    bridge = None if known is None else known()
    if bridge is None:
        bridge = Bridge(loop)
        _bridges[loop] = weakref.ref(bridge)
    return bridge


async def done(operation: _native.Operation) -> Any:
    """What comes of an operation. Whoever is cancelled meanwhile has given it up, and nothing came of it."""
    bridge = here()
    key, ring = bridge.ring()
    try:
        while True:
            outcome = operation.poll(ring)
            if outcome is not None:
                return outcome[0]
            await bridge.rung(key)
    except asyncio.CancelledError:
        operation.cancel()
        raise


class Waiter:
    """A ring of one's own, for one who waits again and again."""

    def __init__(self) -> None:
        self._of: Any = None
        self._key = 0
        self._ring: Any = None

    def here(self) -> tuple[Bridge, int, _native.Ring]:
        """The running loop's bridge, and the ring there."""
        bridge = here()
        if self._of is not bridge:
            self._of = bridge
            self._key, self._ring = bridge.ring()
        return bridge, self._key, self._ring

    def rouse(self) -> None:
        """Wakes whoever waits, though nothing rang."""
        if self._of is not None:
            self._of.rouse(self._key)

    def forget(self) -> None:
        """Nobody is to be woken any more."""
        if self._of is not None:
            self._of.forget(self._key)
