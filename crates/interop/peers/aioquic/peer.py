"""Client and server of hq-interop on aioquic, a peer for mendpath-interop. See docs/interop.md."""

import argparse
import asyncio
import socket
import ssl
import sys
from pathlib import Path
from urllib.parse import urlsplit

from aioquic.asyncio import QuicConnectionProtocol, connect, serve
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, HandshakeCompleted, StreamDataReceived

ALPN = ["hq-interop"]


class Tickets:
    """Session tickets of the server, each good for one resumption."""

    def __init__(self):
        self.by_label = {}

    def add(self, ticket):
        self.by_label[ticket.ticket] = ticket

    def pop(self, label):
        return self.by_label.pop(label, None)


class ServerProtocol(QuicConnectionProtocol):
    """Answers each request with a file."""

    root: Path

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.requests = {}

    def quic_event_received(self, event):
        if isinstance(event, StreamDataReceived) and event.stream_id % 4 == 0:
            request = self.requests.setdefault(event.stream_id, bytearray())
            request += event.data
            if event.end_stream:
                self.answer(event.stream_id, bytes(request))

    def answer(self, stream, request):
        path = request.decode().removeprefix("GET ").strip()
        file = (self.root / path.lstrip("/")).resolve()
        if file.is_relative_to(self.root) and file.is_file():
            self._quic.send_stream_data(stream, file.read_bytes(), end_stream=True)
        else:
            self._quic.reset_stream(stream, 1)
        self.transmit()


async def run_server(args):
    configuration = QuicConfiguration(alpn_protocols=ALPN, is_client=False, max_datagram_frame_size=65536)
    configuration.load_cert_chain(args.cert, args.key)
    ServerProtocol.root = args.root.resolve()
    tickets = Tickets()
    await serve(
        "127.0.0.1",
        args.port,
        configuration=configuration,
        create_protocol=ServerProtocol,
        session_ticket_fetcher=tickets.pop,
        session_ticket_handler=tickets.add,
        retry=args.retry,
    )
    print("listening", flush=True)
    await asyncio.Event().wait()


class ClientProtocol(QuicConnectionProtocol):
    """Fetches files."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.answers = {}
        self.handshake = None
        self.started = asyncio.Event()

    def quic_event_received(self, event):
        if isinstance(event, HandshakeCompleted):
            self.handshake = event
        elif isinstance(event, StreamDataReceived):
            self.started.set()
            data, done = self.answers[event.stream_id]
            data += event.data
            if event.end_stream:
                done.set_result(len(data))
        elif isinstance(event, ConnectionTerminated):
            for _, done in self.answers.values():
                if not done.done():
                    done.set_exception(ConnectionError(f"{event.error_code:#x} {event.reason_phrase}"))

    def get(self, path):
        stream = self._quic.get_next_available_stream_id()
        done = asyncio.get_running_loop().create_future()
        self.answers[stream] = (bytearray(), done)
        self._quic.send_stream_data(stream, f"GET {path}\r\n".encode(), end_stream=True)
        return done

    async def rebind(self):
        """Goes on from another port."""
        old = self._transport
        sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind(("::", 0))
        await asyncio.get_running_loop().create_datagram_endpoint(lambda: self, sock=sock)
        old.close()


async def session(args, configuration, port, paths, early):
    """One connection; returns the bytes fetched."""
    async with connect(
        "127.0.0.1",
        port,
        configuration=configuration,
        create_protocol=ClientProtocol,
        session_ticket_handler=lambda ticket: setattr(configuration, "session_ticket", ticket),
        wait_connected=not early,
    ) as client:
        answers = [client.get(path) for path in paths]
        client.transmit()
        if early:
            await client.wait_connected()
        if args.key_update or args.rebind:
            await client.started.wait()
        if args.key_update:
            client.request_key_update()
        if args.rebind:
            await client.rebind()
            client.change_connection_id()
        total = sum(await asyncio.gather(*answers))
        if early and not client.handshake.early_data_accepted:
            raise ConnectionError("0-RTT was not accepted")
        # A ticket follows the handshake.
        await client.ping()
        return total, client.handshake


async def run_client(args):
    urls = [urlsplit(url) for url in args.urls]
    configuration = QuicConfiguration(alpn_protocols=ALPN, is_client=True, max_data=16 << 20, max_stream_data=8 << 20)
    configuration.verify_mode = ssl.CERT_NONE
    port = urls[0].port
    configuration.server_name = urls[0].hostname
    paths = [url.path for url in urls]
    total = 0
    if args.resume or args.zero_rtt:
        first, paths = paths[:1], paths[1:] or paths
        total, _ = await session(args, configuration, port, first, False)
        if configuration.session_ticket is None:
            raise ConnectionError("no session ticket came")
    more, handshake = await session(args, configuration, port, paths, args.zero_rtt)
    if args.resume and not handshake.session_resumed:
        raise ConnectionError("the session was not resumed")
    print(f"{len(urls)} files, {total + more} bytes")


def main():
    parser = argparse.ArgumentParser()
    roles = parser.add_subparsers(dest="role", required=True)
    server = roles.add_parser("server")
    server.add_argument("--port", type=int, required=True)
    server.add_argument("--root", type=Path, required=True)
    server.add_argument("--cert", type=Path, required=True)
    server.add_argument("--key", type=Path, required=True)
    server.add_argument("--retry", action="store_true")
    client = roles.add_parser("client")
    for flag in ["--resume", "--zero-rtt", "--key-update", "--rebind"]:
        client.add_argument(flag, action="store_true")
    client.add_argument("urls", nargs="+")
    args = parser.parse_args()
    try:
        asyncio.run(run_server(args) if args.role == "server" else run_client(args))
    except (ConnectionError, OSError) as error:
        sys.exit(f"aioquic: {error}")


main()
