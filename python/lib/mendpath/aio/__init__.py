"""The transport for asyncio: QUIC over several paths, whose losses they mend for each other.

>>> from mendpath import aio
>>>
>>> async def echo(connection):
...     reader, writer = await connection.accept_bi()
...     writer.write(await reader.read())
...     writer.close()
...     await connection.closed()
>>>
>>> async def main():
...     identity = aio.Identity(["localhost"])
...     async with aio.Endpoint(("127.0.0.1", 0), server=aio.ServerConfig(identity=identity)) as server:
...         serving = asyncio.create_task(server.serve(echo))
...         host, port = server.addresses[0]
...         async with await aio.connect(host, port, config=aio.ClientConfig(pin=identity.pin)) as connection:
...             await connection.add_path(local="127.0.0.2")
...             reader, writer = await connection.open_bi()
...             writer.write(b"over two paths")
...             writer.close()
...             print(await reader.read())

Sockets, packets and timers are on threads that never touch Python; the event loop is woken once for all that has become
ready. Linux alone, and event loops that can watch files, as asyncio's own and uvloop can.
"""

from ._config import ClientConfig, Identity, Options, ServerConfig
from ._connection import Connection, Path, PathStats, PathUpdate
from ._endpoint import Endpoint, connect
from ._errors import (
    ApplicationClosed,
    ConnectionLost,
    DatagramsBlocked,
    DatagramsUnsupported,
    DatagramTooLarge,
    IdleTimeout,
    LocallyClosed,
    PathError,
    StreamClosed,
    StreamReset,
    StreamStopped,
    TransportClosed,
)
from ._streams import StreamReader, StreamWriter

__all__ = [
    "ApplicationClosed",
    "ClientConfig",
    "Connection",
    "ConnectionLost",
    "DatagramTooLarge",
    "DatagramsBlocked",
    "DatagramsUnsupported",
    "Endpoint",
    "IdleTimeout",
    "Identity",
    "LocallyClosed",
    "Options",
    "Path",
    "PathError",
    "PathStats",
    "PathUpdate",
    "ServerConfig",
    "StreamClosed",
    "StreamReader",
    "StreamReset",
    "StreamStopped",
    "StreamWriter",
    "TransportClosed",
    "connect",
]
