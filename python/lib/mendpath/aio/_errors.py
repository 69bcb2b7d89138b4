"""Why connections, streams and datagrams fail."""

from __future__ import annotations


class ConnectionLost(ConnectionError):
    """The connection has ended; the subclasses say how."""


class ApplicationClosed(ConnectionLost):
    """The peer's application closed the connection.

    :ivar code: its code.
    :ivar reason: its reason, possibly empty.
    """

    def __init__(self, message: str, code: int, reason: bytes):
        super().__init__(message)
        self.code = code
        self.reason = reason


class TransportClosed(ConnectionLost):
    """A transport closed the connection: the protocol was broken, TLS failed, a client was refused.

    :ivar code: one of RFC 9000 section 20.1; 0x100 plus the alert where TLS failed.
    :ivar reason: words for people, possibly none.
    :ivar by_peer: whether it was the peer's.
    """

    def __init__(self, message: str, code: int, reason: str, by_peer: bool):
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.by_peer = by_peer


class IdleTimeout(ConnectionLost, TimeoutError):
    """Nothing was heard from the peer for the idle timeout."""


class LocallyClosed(ConnectionLost):
    """This side closed the connection."""


class StreamReset(ConnectionResetError):
    """The peer gave the stream up.

    :ivar code: its application's code.
    """

    def __init__(self, message: str, code: int):
        super().__init__(message)
        self.code = code


class StreamStopped(BrokenPipeError):
    """The peer wants no more of the stream.

    :ivar code: its application's code.
    """

    def __init__(self, message: str, code: int):
        super().__init__(message)
        self.code = code


class StreamClosed(BrokenPipeError):
    """This side has finished, reset or stopped the stream."""


class DatagramTooLarge(ValueError):
    """A datagram that fits no packet, or is longer than the peer takes.

    :ivar max: the longest that would be taken now, bytes.
    """

    def __init__(self, message: str, max: int):
        super().__init__(message)
        self.max = max


class DatagramsBlocked(BlockingIOError):
    """There is no room for the datagram now."""


class DatagramsUnsupported(OSError):
    """The peer takes no datagrams."""


class PathError(OSError):
    """A path that cannot be opened, changed or closed, with the reason."""
