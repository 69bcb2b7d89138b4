"""Endpoints: sockets, and who connects."""

from __future__ import annotations

import asyncio
import socket
from typing import Any, AsyncIterator, Awaitable, Callable, Iterable, Optional, Sequence, Union

from .. import _native
from ._bridge import done
from ._config import ClientConfig, ServerConfig
from ._connection import Address, Connection, _address, _wish


class Endpoint:
    """UDP sockets and the connections that run over them, as client, as server or both.

    :param local: host and port of its socket, or several; port 0 is any. By default any port of IPv4.
    :param server: accepts connections with this configuration.

    ``async with`` closes it, and waits until its connections have said goodbye. Its ports are free once nothing refers
    to it any more (``del``).
    """

    def __init__(
        self,
        local: Union[Address, str, Iterable[Address], None] = None,
        *,
        server: Optional[ServerConfig] = None,
    ):
        if local is None:
            places = []
        elif isinstance(local, str) or (isinstance(local, tuple) and len(local) == 2 and isinstance(local[1], int)):
            places = [_address(local)]
        else:
            places = [_address(place) for place in local]
        self._native = _native.NativeEndpoint(places, None if server is None else server._native)

    async def connect(
        self,
        host: str,
        port: int,
        *,
        config: ClientConfig,
        server_name: Optional[str] = None,
        local: Union[Address, str, None] = None,
        interface: Optional[str] = None,
    ) -> Connection:
        """Connects, and waits for the handshake.

        :param server_name: the name that the certificate is for; by default ``host``.
        :param local: the address that the first path starts from, if not the endpoint's.
        :param interface: the interface that it starts from.
        :raises ConnectionLost: when that fails; how is the subclass's.
        :raises ValueError: when there can be no such port.
        """
        if local is not None:
            places = [_address(local)]
        else:
            places = self.addresses if interface is None else []
        remote = await _resolve(host, port, places)
        return await self._connect(remote, config, server_name or host, local, interface)

    async def _connect(
        self, remote: Address, config: ClientConfig, name: str, local: Any, interface: Optional[str]
    ) -> Connection:
        via = None if local is None and interface is None else _wish(local, interface, None, None, False)
        return Connection(await done(self._native.connect(config._native, remote, name, via)))

    async def accept(self) -> Optional[Connection]:
        """The next connection whose handshake is complete; ``None`` once the endpoint is closed."""
        native = await done(self._native.accept())
        return None if native is None else Connection(native)

    async def __aiter__(self) -> AsyncIterator[Connection]:
        while True:
            connection = await self.accept()
            if connection is None:
                return
            yield connection

    async def serve(self, handler: Callable[[Connection], Awaitable[Any]]) -> None:
        """Gives each connection to a task of its own, until the endpoint is closed. The connection is closed when its
        task is over: with code 0, or 1 if it failed, which the loop's exception handler hears of unless the connection
        was lost. When this is cancelled, so are the tasks."""
        tasks: set[asyncio.Task] = set()
        try:
            async for connection in self:
                task = asyncio.ensure_future(_handled(handler, connection))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            if tasks:
                await asyncio.wait(tasks)
        finally:
            for task in tasks:
                task.cancel()

    def bind(self, local: Union[Address, str]) -> Address:
        """Binds one more socket, and gives its host and port."""
        return self._native.bind(_address(local))

    @property
    def addresses(self) -> list[Address]:
        """Host and port of every socket."""
        return self._native.addresses

    @property
    def open_connections(self) -> int:
        """Connections that exist, those included that are closing."""
        return self._native.open_connections

    def close(self, code: int = 0, reason: Union[str, bytes] = b"") -> None:
        """Closes all connections, and accepts no more."""
        self._native.close(code, reason.encode() if isinstance(reason, str) else reason)

    async def wait_closed(self) -> None:
        """Waits until no connection is left: those that were closed have said so, and heard what was under way."""
        await done(self._native.idle())

    async def __aenter__(self) -> "Endpoint":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
        await self.wait_closed()

    def __repr__(self) -> str:
        return f"<Endpoint {self.addresses}>"


async def _handled(handler: Callable[[Connection], Awaitable[Any]], connection: Connection) -> None:
    code = 1
    try:
        await handler(connection)
        code = 0
    except asyncio.CancelledError:
        raise
    except Exception as error:
        if connection.close_reason is None:
            context = {"message": f"the handler of {connection!r} failed", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)
    finally:
        connection.close(code)


async def _resolve(host: str, port: int, places: Sequence[Address]) -> Address:
    # The system's resolver takes 65,537 for 1.
    if not 0 < port < 1 << 16:
        raise ValueError(f"the port {port} is not from 1 to 65535")
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    addresses = [(str(entry[4][0]), int(entry[4][1])) for entry in found]

    def is_reached(ip: str) -> bool:
        return any(own == "::" or (":" in own) == (":" in ip) for own, _ in places)

    # A name may have addresses of both families, and the sockets be of one. If none can be reached, the error says so.
    return next((address for address in addresses if is_reached(address[0])), addresses[0])


async def connect(
    host: str,
    port: int,
    *,
    config: Optional[ClientConfig] = None,
    server_name: Optional[str] = None,
    local: Union[Address, str, None] = None,
    interface: Optional[str] = None,
) -> Connection:
    """Connects over a socket of its own. ``async with await connect(...) as connection`` closes both.

    :param config: whom to trust; by default the roots of the system.
    :param server_name: the name that the certificate is for; by default ``host``.
    :param local: the address that the first path starts from.
    :param interface: the interface that it starts from.
    :raises ConnectionLost: when that fails; how is the subclass's.
    :raises ValueError: when there can be no such port.
    """
    config = config if config is not None else ClientConfig()
    remote = await _resolve(host, port, [] if local is None else [_address(local)])
    own = _address(local) if local is not None else (("::" if ":" in remote[0] else "0.0.0.0"), 0)
    endpoint = Endpoint(own)
    connection = await endpoint._connect(remote, config, server_name or host, None, interface)
    connection._endpoint = endpoint
    return connection
