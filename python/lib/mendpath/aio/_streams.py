"""Streams in the manner of asyncio's."""

from __future__ import annotations

import asyncio
import sys
from typing import Any, Callable, Iterable, Optional, Union

from .. import _native
from ._bridge import Waiter, done
from ._errors import StreamStopped

# What `readline` and `readuntil` look through, unless told otherwise; asyncio's.
LIMIT = 64 * 1024


class StreamReader:
    """The receiving side of a stream, as :class:`asyncio.StreamReader`.

    Whoever is cancelled while he reads has lost nothing: the bytes are there for the next one. One task may read at a
    time. If it is forgotten before its end was read, the peer is told to stop, with code 0.
    """

    def __init__(self, native: _native.NativeReader):
        self._native = native
        self._waiter = Waiter()
        self._reading = False

    @property
    def id(self) -> int:
        """The stream's id, the same at the peer."""
        return self._native.id

    async def _until(self, poll: Callable[..., Any], *arguments: Any) -> Any:
        if self._reading:
            raise RuntimeError("another task reads this stream")
        bridge, key, ring = self._waiter.here()
        self._reading = True
        try:
            while True:
                got = poll(*arguments, ring)
                if got is not None:
                    return got
                await bridge.rung(key)
        finally:
            self._reading = False

    async def read(self, n: int = -1) -> bytes:
        """At most ``n`` bytes, waiting for the first; none at the end. Everything up to the end if ``n`` is negative:
        then the peer says how much memory that takes, see :meth:`read_to_end`.

        :raises StreamReset: when the peer has given the stream up.
        :raises ConnectionLost: when the connection has ended, and what had arrived was read.
        """
        if n < 0:
            return await self._until(self._native.read_exactly, sys.maxsize)
        return await self._until(self._native.read, n)

    async def read_to_end(self, limit: int) -> bytes:
        """Everything up to the end, which is at most ``limit`` bytes away.

        :raises asyncio.LimitOverrunError: when it is longer; the bytes are gone.
        """
        everything = await self._until(self._native.read_exactly, limit + 1)
        if len(everything) > limit:
            raise asyncio.LimitOverrunError(f"the stream is longer than {limit} bytes", len(everything))
        return everything

    async def readexactly(self, n: int) -> bytes:
        """Exactly ``n`` bytes.

        :raises asyncio.IncompleteReadError: when the stream has ended before; ``partial`` has the rest.
        """
        if n < 0:
            raise ValueError("n is not negative")
        got = await self._until(self._native.read_exactly, n)
        if len(got) < n:
            raise asyncio.IncompleteReadError(got, n)
        return got

    async def readuntil(self, separator: bytes = b"\n", *, limit: int = LIMIT) -> bytes:
        """Bytes up to the separator, and the separator.

        :raises asyncio.IncompleteReadError: when the stream has ended before it; ``partial`` has the rest.
        :raises asyncio.LimitOverrunError: when ``limit`` bytes went by without it; they can still be read.
        """
        got, found = await self._until(self._native.read_until, separator, limit)
        if got is None:
            raise asyncio.LimitOverrunError(f"no separator within {limit} bytes", found)
        if not found:
            raise asyncio.IncompleteReadError(got, None)
        return got

    async def readline(self, *, limit: int = LIMIT) -> bytes:
        """Bytes up to the end of a line, and that; the rest if the stream ends without one.

        :raises asyncio.LimitOverrunError: when the line is longer than ``limit``.
        """
        try:
            return await self.readuntil(b"\n", limit=limit)
        except asyncio.IncompleteReadError as error:
            return error.partial

    def at_eof(self) -> bool:
        """Whether the end was read."""
        return self._native.at_end()

    def stop(self, code: int = 0) -> None:
        """Tells the peer that no more is wanted; what was not read is forgotten. Whoever is reading hears that too."""
        self._native.stop(code)
        self._waiter.rouse()

    def __aiter__(self) -> "StreamReader":
        return self

    async def __anext__(self) -> bytes:
        line = await self.readline()
        if not line:
            raise StopAsyncIteration
        return line

    def __repr__(self) -> str:
        return f"<StreamReader {self.id}>"


class StreamWriter:
    """The sending side of a stream, as :class:`asyncio.StreamWriter`.

    If it is forgotten before :meth:`close`, the stream is reset with code 0: a task that fails must not look to the
    peer as if it had said all.
    """

    def __init__(self, native: _native.NativeWriter):
        self._native = native
        self._waiter = Waiter()
        self._drains: list[asyncio.Future] = []
        self._closing = False

    @property
    def id(self) -> int:
        """The stream's id, the same at the peer."""
        return self._native.id

    @property
    def waiting(self) -> int:
        """Bytes that were written and that the transport had no room for yet."""
        return self._native.held()

    def _go(self, poll: Callable[..., int], *arguments: Any) -> None:
        bridge, key, ring = self._waiter.here()
        if poll(*arguments, ring):
            # Goes on by itself when there is room, whether somebody waits for that or not.
            bridge.call(key, self._flush)
        else:
            self._drained(None)

    def _flush(self) -> None:
        try:
            self._go(self._native.flush)
        except OSError as error:
            # Told once more to whoever writes next.
            self._drained(error)

    def _drained(self, error: Optional[BaseException]) -> None:
        drains, self._drains = self._drains, []
        for future in drains:
            if future.done():
                continue
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

    def write(self, data: Union[bytes, bytearray, memoryview]) -> None:
        """Takes all of it, and never waits: :meth:`drain` does, and who writes much calls it. ``bytes`` are not copied
        while they wait.

        :raises StreamClosed: when it was closed or reset.
        :raises StreamStopped: when the peer wants no more.
        :raises ConnectionLost: when the connection has ended.
        """
        self._go(self._native.write, data if isinstance(data, (bytes, bytearray)) else bytes(memoryview(data)))

    def writelines(self, lines: Iterable[Union[bytes, bytearray, memoryview]]) -> None:
        """Writes one after the other."""
        for line in lines:
            self.write(line)

    async def drain(self) -> None:
        """Waits until the transport has room for all that was written. Whoever is cancelled meanwhile has not taken
        anything back.

        :raises StreamStopped: when the peer wants no more.
        :raises ConnectionLost: when the connection has ended.
        """
        self._go(self._native.flush)
        if self._native.held():
            future = asyncio.get_running_loop().create_future()
            self._drains.append(future)
            try:
                await future
            finally:
                if future in self._drains:
                    self._drains.remove(future)

    def can_write_eof(self) -> bool:
        """Always."""
        return True

    def write_eof(self) -> None:
        """Says that everything was written; the same as :meth:`close`, since the other direction is another object."""
        self.close()

    def close(self) -> None:
        """Says that everything was written: the peer reads to the end. Does not wait for that."""
        if not self._closing:
            self._closing = True
            try:
                self._go(self._native.finish)
            except OSError:
                # `wait_closed` says so.
                pass

    def is_closing(self) -> bool:
        """Whether it was closed or reset."""
        return self._closing

    async def wait_closed(self) -> None:
        """Waits until the peer's transport has acknowledged everything, the end included.

        :raises StreamStopped: when the peer wanted no more before that.
        :raises ConnectionLost: when the connection ended before that.
        """
        code = await done(self._native.ended())
        if code is not None:
            raise StreamStopped(f"the peer stopped the stream with code {code}", code)

    async def stopped(self) -> Optional[int]:
        """Waits until the peer wants no more, and gives its code; ``None`` when everything was acknowledged, or the
        stream was reset, instead."""
        return await done(self._native.ended())

    async def set_reliable_boundary(self) -> None:
        """Promises that what was written before is delivered even if the stream is reset later, or forgotten: a header
        that says whose stream it is. Waits until the transport has it, as :meth:`drain`.

        The peer must take such a reset (its option ``reset_stream_at``); one that does not is told that the stream is
        given up once it has acknowledged that much, and whoever has not read it by then may miss it.

        :raises StreamClosed: when it was closed or reset.
        :raises StreamStopped: when the peer wants no more.
        :raises ConnectionLost: when the connection has ended.
        """
        await self.drain()
        self._native.set_reliable_boundary()

    def reset(self, code: int = 0) -> None:
        """Gives the stream up; what was not acknowledged may never arrive, but for what was promised by
        :meth:`set_reliable_boundary`."""
        self._native.reset(code)
        self._closing = True
        # There is nothing left to hand over when there is room, which would keep this object until then.
        self._waiter.forget()
        self._drained(None)

    def set_priority(self, priority: int) -> None:
        """Streams of higher priority are sent first; 0 is the default."""
        self._native.set_priority(priority)

    def __repr__(self) -> str:
        return f"<StreamWriter {self.id}>"
