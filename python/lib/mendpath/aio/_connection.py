"""Connections, their datagrams and their paths."""

from __future__ import annotations

import dataclasses
from typing import Any, AsyncIterator, Optional, Union

from .. import _native
from ._bridge import done
from ._errors import ConnectionLost
from ._streams import StreamReader, StreamWriter

Address = tuple  # (host, port): ``tuple[str, int]``


@dataclasses.dataclass(frozen=True)
class PathStats:
    """One path at a moment. Times in seconds, sizes in bytes of UDP payload; all counts from the start on."""

    id: int
    local: Address
    remote: Address
    #: ``validating``, ``active``, ``backup``, ``suspect`` (does not answer) or ``closing``.
    state: str
    rtt: float
    rtt_min: float
    rtt_variance: float
    #: ``regular``, ``metered`` or ``paused``.
    carries: str
    #: Bits per second, if there is a limit.
    rate_limit: Optional[int]
    window: int
    in_flight: int
    mtu: int
    packets_sent: int
    packets_received: int
    packets_missing: int
    #: Gaps in the peer's packet numbers that were remembered no more, because there were too many.
    gaps_forgotten: int
    bytes_sent: int
    bytes_received: int
    packets_lost: int
    bytes_lost: int
    spurious_losses: int
    packets_acknowledged: int
    packets_outstanding: int
    pto_count: int
    ecn_ce: int
    #: 0 to 1.
    loss_estimate: float
    #: Of the packets lost, those whose data a copy or repair symbol had brought before.
    packets_mended: int
    copies_sent: int
    repair_symbols_sent: int
    packets_rebuilt_by_peer: int
    packets_unprotected: int


@dataclasses.dataclass(frozen=True)
class PathUpdate:
    """Something happened to a path.

    :ivar kind: ``validated``, ``suspect`` (it does not answer), ``resumed``, ``moved``, ``closed``; ``local_failure`` and
        ``local_recovery`` of an address of this host; ``missed``: so many updates went by unread.
    :ivar path: its id, where it is about one path.
    :ivar detail: words, possibly none.
    """

    kind: str
    path: Optional[int]
    detail: str


def _wish(local: Any, interface: Optional[str], remote: Any, timeout: Optional[float], backup: bool) -> tuple:
    return (_address(local), interface, _address(remote), timeout, backup)


def _address(address: Any) -> Any:
    """A host alone stands for any of its ports."""
    if address is None:
        return None
    return (address, 0) if isinstance(address, str) else (str(address[0]), address[1])


class Path:
    """A path of a connection. What is asked of one that is gone raises :class:`PathError`."""

    def __init__(self, connection: "Connection", id: int):
        self._connection = connection
        #: The same at the peer, and never used again.
        self.id = id

    def stats(self) -> PathStats:
        """What it does at this moment.

        :raises PathError: when it is gone.
        """
        for stats in self._connection.path_stats():
            if stats.id == self.id:
                return stats
        from ._errors import PathError

        raise PathError(f"there is no path {self.id}")

    @property
    def backup(self) -> bool:
        """Whether it is used only while no other path works. Can be set."""
        return self._connection._native.is_backup(self.id)

    @backup.setter
    def backup(self, backup: bool) -> None:
        self._connection._native.set_backup(self.id, backup)

    def limit(self, carries: str = "regular", rate: Optional[int] = None) -> None:
        """Says what this side lets it carry: ``regular``, ``metered`` (no copies and repair symbols) or ``paused``, and at
        most so many bits per second."""
        self._connection._native.set_limits(self.id, carries, rate)

    def migrate(self, *, local: Union[Address, str, None] = None, interface: Optional[str] = None) -> None:
        """Goes on from another local address."""
        self._connection._native.migrate(self.id, _wish(local, interface, None, None, False))

    def close(self) -> None:
        """Abandons it; what it carried is sent again on the others.

        :raises PathError: when it is gone, or there is no other.
        """
        self._connection._native.close_path(self.id)

    def __repr__(self) -> str:
        return f"<Path {self.id}>"


class Connection:
    """A connection over one or several paths, with streams and datagrams.

    ``async with`` closes it at the end, with code 0. Nothing is lost by cancelling who waits for a stream or a datagram.
    """

    def __init__(self, native: _native.NativeConnection, endpoint: Any = None):
        self._native = native
        # The endpoint that was made for it alone.
        self._endpoint = endpoint

    async def open_bi(self) -> tuple[StreamReader, StreamWriter]:
        """Opens a stream for both directions, as soon as the peer allows another. It hears of it with the first bytes."""
        reader, writer = await done(self._native.open_bi())
        return StreamReader(reader), StreamWriter(writer)

    async def open_uni(self) -> StreamWriter:
        """Opens a stream for one direction, as soon as the peer allows another."""
        return StreamWriter(await done(self._native.open_uni()))

    async def accept_bi(self) -> tuple[StreamReader, StreamWriter]:
        """The next stream for both directions that the peer opens."""
        reader, writer = await done(self._native.accept_bi())
        return StreamReader(reader), StreamWriter(writer)

    async def accept_uni(self) -> StreamReader:
        """The next stream for one direction that the peer opens."""
        return StreamReader(await done(self._native.accept_uni()))

    def send_datagram(
        self,
        data: bytes,
        *,
        within: Optional[float] = None,
        priority: int = 0,
        room: Optional[int] = None,
        apart: bool = False,
        steady: bool = False,
        flow: Optional[int] = None,
        one_late_in: Optional[int] = None,
    ) -> None:
        """Sends a datagram: it may be lost or overtaken. Never waits.

        :param within: seconds for which it is of use. What cannot arrive in time is not sent, and what may not is repaired
            while it can be; ``stats()["timed"]`` counts what became of them.
        :param priority: of those that wait, higher ones leave first.
        :param room: how many bytes may wait together with it: a short queue for what is of little use when it is late.
        :param apart: it repeats what the datagrams before it carry, so that it shares no packet with them and leaves over
            another path than the last of them if one has room.
        :param steady: each loss costs it much, so that it leaves out paths that lose packets by chance while others are
            good enough.
        :param flow: those of the same priority leave by turns of their flows, so that one that sends little does not wait
            for what others have waiting. With no room left, the one that would leave last is dropped instead of this one.
        :param one_late_in: of so many frames like it, one may be late or incomplete: what repair is sized by, within its
            bounds; 500 if it is left out.
        :raises DatagramTooLarge: when it fits no packet.
        :raises DatagramsBlocked: when there is no room.
        :raises DatagramsUnsupported: when the peer takes none.
        """
        self._native.send_datagram(data, (within, priority, room, apart, steady, flow, one_late_in))

    async def send_datagram_wait(
        self,
        data: bytes,
        *,
        within: Optional[float] = None,
        priority: int = 0,
        room: Optional[int] = None,
        apart: bool = False,
        steady: bool = False,
        flow: Optional[int] = None,
        one_late_in: Optional[int] = None,
    ) -> None:
        """The same, but waits for room; ``within`` counts from then on."""
        await done(self._native.send_datagram_wait(data, (within, priority, room, apart, steady, flow, one_late_in)))

    async def receive_datagram(self) -> bytes:
        """The next datagram."""
        return await done(self._native.receive_datagram())

    @property
    def max_datagram_size(self) -> Optional[int]:
        """The longest datagram now, bytes; ``None`` if the peer takes none. Changes with the paths."""
        return self._native.max_datagram_size

    async def add_path(
        self,
        *,
        local: Union[Address, str, None] = None,
        interface: Optional[str] = None,
        remote: Optional[Address] = None,
        timeout: Optional[float] = None,
        backup: bool = False,
    ) -> Path:
        """Opens another path, and waits until the server has answered on it. Only clients do.

        :param local: the address that it starts from, or host and port.
        :param interface: the interface that it starts from.
        :param remote: host and port that it leads to, by default those of the connection.
        :param timeout: seconds to wait. 5.
        :param backup: whether it is used only while no other path works.
        :raises PathError: when that cannot be, or nobody answers.
        """
        return Path(self, await done(self._native.add_path(_wish(local, interface, remote, timeout, backup))))

    def paths(self) -> list[Path]:
        """The open paths."""
        return [Path(self, id) for id in self._native.paths()]

    def path_stats(self) -> list[PathStats]:
        """Statistics of every path at this moment, those included on which late packets may still arrive."""
        return [PathStats(**stats) for stats in self._native.path_stats()]

    async def path_updates(self) -> AsyncIterator[PathUpdate]:
        """What happens to paths from the first step on, until the connection ends."""
        updates = self._native.path_updates()
        while True:
            update = await done(updates.next())
            if update is None:
                return
            yield PathUpdate(*update)

    def stats(self) -> dict[str, Any]:
        """Counts of the whole connection, under the names of ``ConnectionStats`` of the library."""
        return self._native.stats()

    def close(self, code: int = 0, reason: Union[str, bytes] = b"") -> None:
        """Closes the connection. What is not acknowledged may never arrive: where that matters, wait for
        :meth:`StreamWriter.wait_closed` first."""
        self._native.close(code, reason.encode() if isinstance(reason, str) else reason)

    async def closed(self) -> ConnectionLost:
        """Waits until the connection has ended, and says why."""
        return await done(self._native.closed())

    @property
    def close_reason(self) -> Optional[ConnectionLost]:
        """Why it has ended; ``None`` while it has not."""
        return self._native.close_reason()

    @property
    def remote_address(self) -> Address:
        """Host and port of the peer on the first open path."""
        return self._native.remote_address

    @property
    def alpn(self) -> Optional[bytes]:
        """The application protocol agreed on."""
        alpn = self._native.alpn
        return None if alpn is None else bytes(alpn)

    @property
    def multipath(self) -> bool:
        """Whether the peer speaks multipath QUIC."""
        return self._native.multipath

    @property
    def repair(self) -> bool:
        """Whether the peer understands repair symbols."""
        return self._native.repair

    @property
    def id(self) -> str:
        """What both ends call it in their logs and qlog files."""
        return self._native.original_id

    def peer_certificates(self) -> Optional[list[bytes]]:
        """The peer's certificate chain in DER, its own first; clients have none."""
        chain = self._native.peer_certificates()
        return None if chain is None else [bytes(certificate) for certificate in chain]

    async def __aenter__(self) -> "Connection":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
        if self._endpoint is not None:
            await self._endpoint.wait_closed()

    def __repr__(self) -> str:
        return f"<Connection {self.id} with {self.remote_address}>"
