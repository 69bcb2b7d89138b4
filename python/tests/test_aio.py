"""The transport for asyncio, over the loopback interface. Times here only end a test that hangs."""

import asyncio
import contextlib
import gc
import hashlib
import os
import signal
import socket
import subprocess
import sys
import textwrap
import weakref

import pytest

from mendpath import aio

HANG = 120


def run(main):
    """Runs a coroutine function; one that hangs fails."""

    async def bounded():
        return await asyncio.wait_for(main(), HANG)

    return asyncio.run(bounded())


@contextlib.asynccontextmanager
async def pair(local=("127.0.0.1", 0), server=None, client=None):
    """A client's connection and its server's."""
    identity = aio.Identity(["localhost"])
    config = aio.ClientConfig(pin=identity.pin, **(client or {}))
    async with aio.Endpoint(local, server=aio.ServerConfig(identity=identity, **(server or {}))) as endpoint:
        host, port = endpoint.addresses[0]
        async with aio.Endpoint(("127.0.0.1", 0)) as clients:
            accepted = asyncio.ensure_future(endpoint.accept())
            connection = await clients.connect(host, port, config=config)
            yield connection, await accepted


async def both_ways(ours, theirs):
    """A stream as both sides have it: reader and writer here, reader and writer there."""
    reader, writer = await ours.open_bi()
    writer.write(b"!")
    far_reader, far_writer = await theirs.accept_bi()
    assert await far_reader.readexactly(1) == b"!"
    return reader, writer, far_reader, far_writer


def test_an_echo():
    async def echo(connection):
        reader, writer = await connection.accept_bi()
        writer.write(await reader.read())
        writer.close()
        await connection.closed()

    async def main():
        identity = aio.Identity(["localhost"])
        async with aio.Endpoint(("127.0.0.1", 0), server=aio.ServerConfig(identity=identity)) as server:
            serving = asyncio.ensure_future(server.serve(echo))
            host, port = server.addresses[0]
            async with await aio.connect(host, port, config=aio.ClientConfig(pin=identity.pin)) as connection:
                reader, writer = await connection.open_bi()
                assert connection.alpn == b"mendpath/1"
                assert connection.remote_address == (host, port)
                writer.writelines([b"over ", bytearray(b"one "), memoryview(b"path")])
                writer.close()
                assert await reader.read() == b"over one path"
                assert reader.at_eof()
                assert await reader.read() == b""
                await writer.wait_closed()
            assert isinstance(connection.close_reason, aio.LocallyClosed)
            server.close()
            await serving

    run(main)


def test_of_a_name_with_addresses_of_both_families_the_one_that_can_be_reached_is_taken():
    async def main():
        async def both(host, port, **_):
            v6 = (socket.AF_INET6, socket.SOCK_DGRAM, 17, "", ("2001:db8::1", port, 0, 0))
            return [v6, (socket.AF_INET, socket.SOCK_DGRAM, 17, "", ("127.0.0.1", port))]

        asyncio.get_running_loop().getaddrinfo = both
        identity = aio.Identity(["localhost"])
        config = aio.ClientConfig(pin=identity.pin)
        async with aio.Endpoint(("127.0.0.1", 0), server=aio.ServerConfig(identity=identity)) as server:
            _, port = server.addresses[0]
            async with aio.Endpoint() as client:
                connection = await client.connect("both.example", port, config=config)
                assert connection.remote_address == ("127.0.0.1", port)
            async with await aio.connect("both.example", port, config=config, local="127.0.0.1") as connection:
                assert connection.remote_address == ("127.0.0.1", port)

    run(main)


def test_certificates_of_files_and_other_protocols(tmp_path):
    identity = aio.Identity(["localhost", "127.0.0.1"])
    chain, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    chain.write_text(identity.certificate_pem())
    key.write_text(identity.to_pem())
    assert aio.Identity(["x.example"], identity.to_pem()).pin == identity.pin

    async def main():
        server = aio.ServerConfig(chain, key, alpn=["other/2"])
        async with aio.Endpoint(("127.0.0.1", 0), server=server) as endpoint:
            host, port = endpoint.addresses[0]
            trusting = aio.ClientConfig(ca=chain, alpn=["other/2", "other/1"])
            async with await aio.connect(host, port, config=trusting, server_name="localhost") as connection:
                assert connection.alpn == b"other/2"
                assert connection.peer_certificates() == [identity.certificate]
            with pytest.raises(aio.TransportClosed, match="other.example|name") as failed:
                await aio.connect(host, port, config=trusting, server_name="other.example")
            assert not failed.value.by_peer and failed.value.code >= 0x100
            with pytest.raises(aio.TransportClosed) as failed:
                await aio.connect(host, port, config=aio.ClientConfig(ca=chain, alpn=["none"]), server_name="localhost")
            assert failed.value.by_peer
            stranger = aio.ClientConfig(pin=aio.Identity().pin, alpn=["other/2"])
            with pytest.raises(aio.TransportClosed):
                await aio.connect(host, port, config=stranger)

    run(main)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: aio.ClientConfig(pin="short"), "not a key pin"),
        (lambda: aio.ClientConfig(ca=[], pin=None), "names no file"),
        (lambda: aio.ClientConfig(ca="x", pin="y"), "not by both"),
        (lambda: aio.ClientConfig(pin=aio.Identity().pin, recovery="magic"), "magic"),
        (lambda: aio.ClientConfig(pin=aio.Identity().pin, idle_timeout=-1), "idle_timeout"),
        (lambda: aio.ClientConfig(pin=aio.Identity().pin, max_paths=65), "max_paths"),
        (lambda: aio.ClientConfig(pin=aio.Identity().pin, receive_window=1 << 62), "receive_window"),
        (lambda: aio.ClientConfig(pin=aio.Identity().pin, max_bidi_streams=-1), "max_bidi_streams"),
        (lambda: aio.ServerConfig(identity=aio.Identity(), max_connections=-1), "max_connections"),
        (lambda: aio.ServerConfig(), "identity"),
        (lambda: aio.ServerConfig(certificate="a"), "both"),
        (lambda: aio.Endpoint(("localhost.example", 0)), "no IP address"),
    ],
)
def test_what_cannot_be_is_said(make, words):
    with pytest.raises(ValueError, match=words):
        make()
    with pytest.raises(TypeError, match="recovery"):
        aio.ClientConfig(pin=aio.Identity().pin, recvery="auto")
    with pytest.raises(FileNotFoundError, match="/nowhere/at-all.pem"):
        aio.ClientConfig(ca="/nowhere/at-all.pem")
    with pytest.raises(FileNotFoundError, match="/nowhere/key.pem"):
        aio.ServerConfig("/nowhere/chain.pem", "/nowhere/key.pem")
    with pytest.raises(TypeError, match="list of names"):
        aio.Identity("localhost")


def test_many_streams_at_once():
    async def main():
        async with pair() as (ours, theirs):

            async def serve():
                while True:
                    reader, writer = await theirs.accept_bi()
                    asyncio.ensure_future(answer(reader, writer))

            async def answer(reader, writer):
                async for line in reader:
                    writer.write(line[::-1])
                writer.close()

            async def ask(number):
                reader, writer = await ours.open_bi()
                for line in range(3):
                    writer.write(b"\n%d of %d" % (line, number))
                writer.write(b"\n")
                writer.close()
                assert await reader.read() == b"".join(
                    [b"\n", *(b"\n" + (b"%d of %d" % (line, number))[::-1] for line in range(3))]
                )

            serving = asyncio.ensure_future(serve())
            # More than may be open at a time.
            await asyncio.gather(*(ask(number) for number in range(600)))
            serving.cancel()

    run(main)


def test_a_large_transfer_arrives_as_it_was():
    size = 64 << 20

    async def main():
        async with pair() as (ours, theirs):
            writer = await ours.open_uni()
            reader_there = asyncio.ensure_future(theirs.accept_uni())
            sent = hashlib.sha256()

            async def write():
                block = os.urandom(1 << 20)
                for number in range(size >> 20):
                    part = number.to_bytes(4, "big") + block[4:]
                    sent.update(part)
                    writer.write(part)
                    await writer.drain()
                writer.close()
                await writer.wait_closed()

            writing = asyncio.ensure_future(write())
            reader = await reader_there
            received, total = hashlib.sha256(), 0
            while part := await reader.read(1 << 20):
                received.update(part)
                total += len(part)
            await writing
            assert total == size
            assert received.digest() == sent.digest()
            assert ours.stats()["stream_bytes_sent"] == size

    run(main)


def test_lines_and_exact_reads():
    async def main():
        async with pair() as (ours, theirs):
            _, writer, reader, _ = await both_ways(ours, theirs)
            writer.write(b"one\r\ntwo\nthree")
            writer.close()
            assert await reader.readuntil(b"\r\n") == b"one\r\n"
            assert await reader.readline() == b"two\n"
            with pytest.raises(asyncio.LimitOverrunError):
                await reader.readuntil(b"\n", limit=3)
            with pytest.raises(asyncio.IncompleteReadError) as short:
                await reader.readexactly(6)
            assert short.value.partial == b"three"
            assert await reader.readline() == b""
            with pytest.raises(ValueError):
                await reader.readuntil(b"")

            _, writer, reader, _ = await both_ways(ours, theirs)
            writer.write(b"no end in sight")
            with pytest.raises(asyncio.LimitOverrunError):
                await reader.readline(limit=4)
            writer.close()
            with pytest.raises(asyncio.LimitOverrunError):
                await reader.read_to_end(4)

    run(main)


def test_a_cancelled_read_loses_no_byte():
    async def main():
        async with pair() as (ours, theirs):
            _, writer, reader, _ = await both_ways(ours, theirs)
            expected, got, cancelled = bytearray(), bytearray(), 0
            reads = [
                lambda: reader.readexactly(50_000),
                lambda: reader.read(-1),
                lambda: reader.readuntil(b"\xff\xfe", limit=1 << 30),
            ]
            for number in range(60):
                task = asyncio.ensure_future(reads[number % 3]())
                part = bytes([number]) * (1 + number * 97)
                expected += part
                writer.write(part)
                # Given up while it waits, with some of it there or none.
                for _ in range(number % 7):
                    await asyncio.sleep(0)
                task.cancel()
                try:
                    got += await task
                except asyncio.CancelledError:
                    cancelled += 1
            writer.close()
            assert cancelled > 30
            while part := await reader.read(999):
                got += part
            assert got == expected

    run(main)


def test_whoever_gives_up_waiting_takes_no_stream_along():
    async def main():
        async with pair() as (ours, theirs):
            for number in range(20):
                waiting = asyncio.ensure_future(theirs.accept_uni())
                for _ in range(number % 4):
                    await asyncio.sleep(0)
                writer = await ours.open_uni()
                writer.write(b"%d" % number)
                writer.close()
                if number % 2:
                    await asyncio.sleep(0)
                waiting.cancel()
                try:
                    reader = await waiting
                except asyncio.CancelledError:
                    reader = await theirs.accept_uni()
                assert await reader.read() == b"%d" % number

    run(main)


def test_a_cancelled_drain_takes_nothing_back():
    async def main():
        async with pair(server={"receive_window": 1 << 20, "stream_receive_window": 1 << 19}) as (ours, theirs):
            _, writer, reader, _ = await both_ways(ours, theirs)
            data = os.urandom(8 << 20)
            writer.write(data)
            draining = asyncio.ensure_future(writer.drain())
            await asyncio.sleep(0)
            draining.cancel()
            with pytest.raises(asyncio.CancelledError):
                await draining
            assert not writer._drains
            writer.close()
            assert await reader.read() == data
            await writer.wait_closed()
            assert writer.waiting == 0

    run(main)


def test_a_search_for_another_separator_begins_anew():
    async def main():
        async with pair() as (ours, theirs):
            _, writer, reader, _ = await both_ways(ours, theirs)
            writer.write(b"one;two\r\nthree")
            writer.close()
            with pytest.raises(asyncio.LimitOverrunError):
                await reader.readuntil(b"?", limit=4)
            assert await reader.readuntil(b";") == b"one;"
            with pytest.raises(asyncio.LimitOverrunError):
                await reader.readuntil(b"three!", limit=4)
            assert await reader.readuntil(b"\r\n") == b"two\r\n"
            assert await reader.read() == b"three"

    run(main)


def test_two_tasks_cannot_read_at_a_time():
    async def main():
        async with pair() as (ours, theirs):
            _, writer, reader, _ = await both_ways(ours, theirs)
            first = asyncio.ensure_future(reader.read(1))
            await asyncio.sleep(0)
            with pytest.raises(RuntimeError, match="another task"):
                await reader.read(1)
            writer.write(b"x")
            assert await first == b"x"

    run(main)


def test_a_reset_and_a_stop_have_codes():
    async def main():
        async with pair() as (ours, theirs):
            reader, writer, far_reader, far_writer = await both_ways(ours, theirs)
            writer.reset(41)
            with pytest.raises(aio.StreamReset) as failed:
                await far_reader.read()
            assert failed.value.code == 41
            assert isinstance(failed.value, ConnectionResetError)
            with pytest.raises(aio.StreamClosed):
                writer.write(b"after all")

            reader.stop(42)
            assert await far_writer.stopped() == 42
            with pytest.raises(aio.StreamStopped) as failed:
                far_writer.write(b"x")
                await far_writer.drain()
            assert failed.value.code == 42
            with pytest.raises(aio.StreamStopped):
                await far_writer.wait_closed()
            with pytest.raises(aio.StreamClosed):
                await reader.read()
            with pytest.raises(ValueError):
                reader.stop(1 << 62)

    run(main)


def test_what_was_promised_of_a_stream_arrives_although_it_is_reset():
    promised = os.urandom(8 << 20)

    async def main():
        async with pair(server={"reset_stream_at": True}) as (ours, theirs):
            _, writer, far_reader, far_writer = await both_ways(ours, theirs)
            # Only who reads gives room for all of it.
            reading = asyncio.ensure_future(far_reader.readexactly(len(promised)))
            writer.write(promised)
            await writer.set_reliable_boundary()
            writer.write(b"more")
            writer.reset(41)
            assert await reading == promised
            with pytest.raises(aio.StreamReset) as failed:
                await far_reader.readexactly(len(b"more") + 1)
            assert failed.value.code == 41
            far_writer.close()
            for ended in (writer, far_writer):
                with pytest.raises(aio.StreamClosed):
                    await ended.set_reliable_boundary()

    run(main)


def test_nothing_is_promised_of_a_stream_that_was_stopped():
    async def main():
        async with pair() as (ours, theirs):
            _, writer, reader, _ = await both_ways(ours, theirs)
            reader.stop(7)
            assert await writer.stopped() == 7
            with pytest.raises(aio.StreamStopped) as failed:
                await writer.set_reliable_boundary()
            assert failed.value.code == 7

    run(main)


def test_a_stop_wakes_whoever_drains():
    async def main():
        async with pair(server={"receive_window": 1 << 18, "stream_receive_window": 1 << 17}) as (ours, theirs):
            _, writer, reader, _ = await both_ways(ours, theirs)
            writer.write(bytes(64 << 20))
            draining = asyncio.ensure_future(writer.drain())
            await asyncio.sleep(0)
            reader.stop(7)
            with pytest.raises(aio.StreamStopped) as failed:
                await draining
            assert failed.value.code == 7
            assert writer.waiting == 0

    run(main)


def test_a_stop_wakes_whoever_reads():
    async def main():
        async with pair() as (ours, theirs):
            streams = await both_ways(ours, theirs)
            reading = asyncio.ensure_future(streams[2].readexactly(5))
            await asyncio.sleep(0)
            streams[2].stop(7)
            with pytest.raises(aio.StreamClosed):
                await reading
            assert await streams[1].stopped() == 7

    run(main)


def test_a_writer_that_was_reset_is_forgotten_with_what_waited():
    limits = {"receive_window": 1 << 20, "stream_receive_window": 1 << 19}

    async def main():
        async with pair(server=limits, client={"send_buffer": 1 << 20}) as (ours, theirs):
            _, writer, reader, _ = await both_ways(ours, theirs)
            writer.write(bytes(8 << 20))
            assert writer.waiting
            writer.reset(41)
            forgotten = weakref.ref(writer)
            del writer
            gc.collect()
            assert forgotten() is None
            with pytest.raises(aio.StreamReset):
                await reader.read()

    run(main)


def test_a_loop_that_is_closed_is_forgotten_with_who_waited():
    async def wait():
        endpoint = aio.Endpoint(("127.0.0.1", 0), server=aio.ServerConfig(identity=aio.Identity()))
        await endpoint.accept()

    loop = asyncio.new_event_loop()
    task = loop.create_task(wait())
    loop.run_until_complete(asyncio.sleep(0.1))
    forgotten = weakref.ref(loop)
    loop.close()
    del task, loop
    gc.collect()
    assert forgotten() is None


def test_what_is_no_bytes_is_not_written_and_what_is_no_code_resets_nothing():
    async def main():
        async with pair() as (ours, theirs):
            _, writer, far_reader, _ = await both_ways(ours, theirs)
            for wrong in (5, "words", [1], None):
                with pytest.raises(TypeError):
                    writer.write(wrong)
            writer.write(memoryview(b"a-b-c")[::2])
            with pytest.raises(ValueError):
                writer.reset(1 << 62)
            assert not writer.is_closing()
            writer.close()
            assert await far_reader.read() == b"abc"
            await writer.wait_closed()

    run(main)


def test_a_forgotten_writer_resets_its_stream():
    async def main():
        async with pair() as (ours, theirs):
            reader, writer, far_reader, _ = await both_ways(ours, theirs)
            del writer
            with pytest.raises(aio.StreamReset) as failed:
                await far_reader.read()
            assert failed.value.code == 0

    run(main)


def test_a_peer_that_never_reads_holds_the_writer_back():
    window = 1 << 20
    limits = {"receive_window": window, "stream_receive_window": window // 2}

    async def main():
        async with pair(server=limits, client={"send_buffer": window}) as (ours, theirs):
            _, writer, reader, _ = await both_ways(ours, theirs)
            block, blocks = bytes(64 << 10), 0
            while not writer.waiting:
                writer.write(block)
                blocks += 1
                # The transport has its own buffer and the peer's window, and then no more.
                assert blocks * len(block) <= 4 * window
                await asyncio.sleep(0)
            draining = asyncio.ensure_future(writer.drain())
            # Another stream has its turn meanwhile.
            other_reader, other_writer, far_reader, far_writer = await both_ways(ours, theirs)
            far_writer.write(b"still there")
            assert await other_reader.readexactly(11) == b"still there"
            assert not draining.done()
            assert ours.stats()["stream_bytes_sent"] <= window + 2
            writer.close()
            assert len(await reader.read()) == blocks * len(block)
            await draining

    run(main)


def test_nothing_is_written_behind_an_end_that_waits():
    async def main():
        async with pair(server={"receive_window": 1 << 20, "stream_receive_window": 1 << 19}) as (ours, theirs):
            _, writer, reader, _ = await both_ways(ours, theirs)
            data = os.urandom(4 << 20)
            writer.write(data)
            writer.close()
            assert writer.waiting
            with pytest.raises(aio.StreamClosed):
                writer.write(b"more")
            assert await reader.read() == data
            await writer.wait_closed()
            with pytest.raises(aio.StreamClosed):
                writer.write(b"more")

    run(main)


def test_a_server_that_closes_says_why():
    async def main():
        async with pair() as (ours, theirs):
            reader, writer, far_reader, far_writer = await both_ways(ours, theirs)
            far_writer.write(b"last words")
            assert await reader.readexactly(10) == b"last words"
            waiting = [
                asyncio.ensure_future(wait)
                for wait in (reader.read(1), ours.accept_bi(), ours.accept_uni(), ours.receive_datagram())
            ]
            await asyncio.sleep(0)
            theirs.close(99, "enough")
            for wait in waiting:
                with pytest.raises(aio.ApplicationClosed) as failed:
                    await wait
                assert (failed.value.code, failed.value.reason) == (99, b"enough")
            reason = await ours.closed()
            assert isinstance(reason, aio.ApplicationClosed) and isinstance(reason, ConnectionError)
            assert "enough" in str(reason)
            with pytest.raises(aio.ApplicationClosed):
                writer.write(b"x")
            with pytest.raises(aio.ApplicationClosed):
                await ours.open_bi()
            with pytest.raises(aio.LocallyClosed):
                await theirs.open_uni()

    run(main)


def test_an_endpoint_that_closes_ends_who_accepts():
    async def main():
        server = aio.ServerConfig(identity=aio.Identity())
        endpoint = aio.Endpoint(("127.0.0.1", 0), server=server)
        accepting = asyncio.ensure_future(endpoint.accept())
        await asyncio.sleep(0)
        endpoint.close()
        assert await accepting is None
        await endpoint.wait_closed()

    run(main)


def test_nobody_there_is_a_timeout():
    async def main():
        # Bound, and never answering.
        import socket

        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
            silent.bind(("127.0.0.1", 0))
            config = aio.ClientConfig(pin=aio.Identity().pin, idle_timeout=0.5)
            with pytest.raises(aio.IdleTimeout) as failed:
                await aio.connect(*silent.getsockname(), config=config)
            assert isinstance(failed.value, TimeoutError)

    run(main)


@pytest.mark.parametrize("port", [-1, 0, 1 << 16, (1 << 16) + 443])
def test_a_port_that_cannot_be_is_refused(port):
    async def main():
        config = aio.ClientConfig(pin=aio.Identity().pin)
        with pytest.raises(ValueError, match=f"the port {port} is not from 1 to 65535"):
            await aio.connect("127.0.0.1", port, config=config)

    run(main)


def test_a_failing_handler_closes_its_connection_with_1():
    async def main():
        told = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context["exception"]))

        async def fail(connection):
            raise KeyError("something")

        identity = aio.Identity()
        async with aio.Endpoint(("127.0.0.1", 0), server=aio.ServerConfig(identity=identity)) as server:
            serving = asyncio.ensure_future(server.serve(fail))
            async with await aio.connect(*server.addresses[0], config=aio.ClientConfig(pin=identity.pin)) as connection:
                assert (await connection.closed()).code == 1
            server.close()
            await serving
        assert [type(error) for error in told] == [KeyError]

    run(main)


def test_two_paths_over_two_addresses():
    async def main():
        async with pair(client={"scheduler": "earliest-delivery"}) as (ours, theirs):
            assert ours.multipath and ours.repair
            updates = ours.path_updates()
            heard = asyncio.ensure_future(updates.__anext__())
            await asyncio.sleep(0)
            second = await ours.add_path(local="127.0.0.2")
            update = await heard
            assert (update.kind, update.path) == ("validated", second.id)
            assert [path.id for path in ours.paths()] == [0, second.id]
            assert {stats.local[0] for stats in ours.path_stats()} == {"127.0.0.1", "127.0.0.2"}
            with pytest.raises(aio.PathError):
                await theirs.add_path()

            _, writer, reader, _ = await both_ways(ours, theirs)
            first = ours.paths()[0]
            data, got = os.urandom(16 << 20), bytearray()
            writer.write(data)
            while len(got) < len(data) // 2:
                got += await reader.read(1 << 18)
            first.close()
            writer.close()
            while part := await reader.read(1 << 20):
                got += part
            assert got == data
            stats = second.stats()
            assert stats.state == "active" and stats.bytes_sent > 0 and 0 < stats.rtt < HANG
            with pytest.raises(aio.PathError, match="last path"):
                second.close()
            assert [path.id for path in ours.paths()] == [second.id]
            with pytest.raises(aio.PathError):
                first.close()

            third = await ours.add_path(local=("127.0.0.3", 0), backup=True)
            assert third.backup and not second.backup
            third.backup = False
            assert not third.backup
            third.limit("metered", rate=1_000_000)
            assert (third.stats().carries, third.stats().rate_limit) == ("metered", 1_000_000)
            with pytest.raises(ValueError, match="regular"):
                third.limit("bogus")

    run(main)


def test_a_path_to_nowhere_is_an_error():
    async def main():
        async with pair() as (ours, _):
            import socket

            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
                silent.bind(("127.0.0.1", 0))
                with pytest.raises(aio.PathError, match="no answer"):
                    await ours.add_path(remote=silent.getsockname(), timeout=0.2)
            with pytest.raises(aio.PathError, match="no-such-interface"):
                await ours.add_path(interface="no-such-interface")

    run(main)


def test_datagrams_and_their_deadlines():
    async def main():
        async with pair(client={"datagram_send_buffer": 20_000}) as (ours, theirs):
            ours.send_datagram(b"hello")
            assert await theirs.receive_datagram() == b"hello"
            ours.send_datagram(b"in time", within=30.0, priority=2, one_late_in=10_000)
            assert await theirs.receive_datagram() == b"in time"
            assert ours.stats()["timed"]["sent"] == 1
            # What goes apart shares no packet with what was sent before it.
            before = ours.stats()["packets_sent"]
            for _ in range(20):
                ours.send_datagram(b"first")
                ours.send_datagram(b"again", apart=True, steady=True)
            assert sorted([await theirs.receive_datagram() for _ in range(40)])[20] == b"first"
            assert ours.stats()["packets_sent"] - before >= 20
            assert theirs.path_stats()[0].gaps_forgotten == 0
            ours.send_datagram(b"of a flow", flow=2**32 - 1)
            await ours.send_datagram_wait(b"of another", flow=1)
            assert sorted([await theirs.receive_datagram() for _ in range(2)]) == [b"of a flow", b"of another"]
            # Of no use any more when it is sent.
            ours.send_datagram(b"too late", within=0.0)
            ours.send_datagram(b"after it")
            assert await theirs.receive_datagram() == b"after it"
            assert ours.stats()["timed"]["expired"] == 1
            with pytest.raises(aio.DatagramTooLarge) as failed:
                ours.send_datagram(bytes(9_000))
            assert failed.value.max == ours.max_datagram_size < 9_000
            # Faster than the window of the path opens.
            with pytest.raises(aio.DatagramsBlocked):
                for _ in range(1_000_000):
                    ours.send_datagram(bytes(900))
            with pytest.raises(ValueError, match="within"):
                ours.send_datagram(b"x", within=-1.0)

            enough = asyncio.Event()

            async def send():
                while not enough.is_set():
                    await ours.send_datagram_wait(b"waited" + bytes(900))

            sending = asyncio.ensure_future(send())
            for _ in range(200):
                while not (await theirs.receive_datagram()).startswith(b"waited"):
                    pass
            enough.set()
            await sending

        async with pair(server={"datagram_receive_buffer": 0}) as (ours, _):
            assert ours.max_datagram_size is None
            with pytest.raises(aio.DatagramsUnsupported):
                ours.send_datagram(b"x")

    run(main)


def test_an_idle_loop_is_not_woken():
    async def main():
        from mendpath.aio import _bridge

        async with pair() as (ours, theirs):
            _, writer, reader, _ = await both_ways(ours, theirs)
            bridge, woken = _bridge.here(), []
            ready = bridge._ready
            loop = asyncio.get_running_loop()
            loop.add_reader(bridge._native.fileno(), lambda: (woken.append(1), ready()))
            data = os.urandom(4 << 20)
            writer.write(data)
            writer.close()
            assert await reader.readexactly(len(data)) == data
            # At most once for what a batch of packets brings, and far less often than once for each.
            assert 0 < len(woken) <= ours.stats()["packets_sent"]
            await writer.wait_closed()

    run(main)


def script(text, **options):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)], capture_output=True, text=True, timeout=HANG, **options
    )


BEGIN = """
    import asyncio, os, signal, sys
    from mendpath import aio

    identity = aio.Identity()
    async def connected():
        server = aio.Endpoint(("127.0.0.1", 0), server=aio.ServerConfig(identity=identity))
        client = aio.Endpoint(("127.0.0.1", 0))
        accepted = asyncio.ensure_future(server.accept())
        ours = await client.connect(*server.addresses[0], config=aio.ClientConfig(pin=identity.pin))
        return server, client, ours, await accepted
"""


def test_an_interpreter_that_ends_takes_nothing_down():
    done = script(
        BEGIN
        + """
    keep = []
    async def main():
        server, client, ours, theirs = await connected()
        writer = await ours.open_uni()
        writer.write(bytes(1 << 24))
        keep.extend([server, client, ours, theirs, writer])
        keep.append(asyncio.ensure_future(theirs.accept_bi()))
        await asyncio.sleep(0)

    asyncio.run(main())
    print("over", flush=True)
    """
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "over\n", "")


def test_what_outlives_its_loop_works_in_the_next():
    async def first():
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(asyncio.sleep, 0)
            identity = aio.Identity()
            server = aio.Endpoint(("127.0.0.1", 0), server=aio.ServerConfig(identity=identity))
            client = aio.Endpoint(("127.0.0.1", 0))
            accepted = asyncio.ensure_future(server.accept())
            ours = await client.connect(*server.addresses[0], config=aio.ClientConfig(pin=identity.pin))
            theirs = await accepted
            streams = await both_ways(ours, theirs)
            # Waits when its loop is closed.
            waiting = asyncio.ensure_future(streams[0].read(1))
            await asyncio.sleep(0)
            waiting.cancel()
            return server, client, ours, theirs, streams

    server, client, ours, theirs, (reader, writer, far_reader, far_writer) = asyncio.run(first())

    async def second():
        far_writer.write(b"again")
        assert await reader.readexactly(5) == b"again"
        server.close()
        client.close()
        await asyncio.gather(server.wait_closed(), client.wait_closed())

    run(second)


def test_ctrl_c_ends_who_waits():
    done = script(
        BEGIN
        + """
    async def main():
        server, client, ours, theirs = await connected()
        asyncio.get_running_loop().call_later(0.2, os.kill, os.getpid(), signal.SIGINT)
        reader, writer = await ours.open_bi()
        await reader.read()

    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    """
    )
    assert (done.returncode, done.stdout) == (0, "interrupted\n"), done.stderr


def test_a_forked_child_makes_its_own():
    done = script(
        BEGIN
        + """
    async def child(old):
        try:
            await old.open_bi()
        except RuntimeError as error:
            print("child:", error, flush=True)
        server, client, ours, theirs = await connected()
        ours.send_datagram(b"x")
        assert await theirs.receive_datagram() == b"x"

    # No loop runs meanwhile: its descriptors would be shared, and the child could take the parent's
    # wake-ups.
    things = asyncio.run(connected())
    pid = os.fork()
    if pid == 0:
        asyncio.run(child(things[2]))
        del things
        print("child: over", flush=True)
    else:
        print("parent:", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
    """
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1:] == ["child: over", "parent: 0"], (done.stdout, done.stderr)
    assert "before the fork" in done.stdout
