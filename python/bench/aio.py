"""Bulk throughput of ``mendpath.aio`` beside aioquic, in one run: ``pip install aioquic``, and a release build of the
package.

    python python/bench/aio.py [--seconds 5] [--rounds 3]

A client sends as fast as it can over one stream of one connection, over the loopback interface, to a server in a process
of its own; both libraries with their own defaults, alternately. Goodput is what the server has read when the client has
sent for that long. Prints the median of the rounds, and their ratio.
"""

import argparse
import asyncio
import multiprocessing
import os
import statistics
import tempfile
import time

BLOCK = 256 << 10


def mendpath_server(pem, port):
    from mendpath import aio

    async def count(connection):
        reader, writer = await connection.accept_bi()
        total = 0
        while part := await reader.read(1 << 20):
            total += len(part)
        writer.write(b"%d" % total)
        writer.close()
        await connection.closed()

    async def main():
        config = aio.ServerConfig(identity=aio.Identity(["localhost"], pem))
        async with aio.Endpoint(("127.0.0.1", 0), server=config) as endpoint:
            port.send(endpoint.addresses[0][1])
            await endpoint.serve(count)

    asyncio.run(main())


async def mendpath_client(identity, port, seconds):
    from mendpath import aio

    config = aio.ClientConfig(pin=identity.pin)
    async with await aio.connect("127.0.0.1", port, config=config) as connection:
        reader, writer = await connection.open_bi()
        block, began = os.urandom(BLOCK), time.perf_counter()
        while time.perf_counter() - began < seconds:
            writer.write(block)
            await writer.drain()
        writer.close()
        total = int(await reader.read())
        return total / (time.perf_counter() - began)


def aioquic_server(files, port):
    from aioquic.asyncio import serve
    from aioquic.quic.configuration import QuicConfiguration

    async def count(reader, writer):
        total = 0
        while part := await reader.read(1 << 20):
            total += len(part)
        writer.write(b"%d" % total)
        writer.write_eof()

    async def main():
        config = QuicConfiguration(is_client=False, alpn_protocols=["bench"])
        config.load_cert_chain(*files)
        handle = lambda reader, writer: asyncio.ensure_future(count(reader, writer))
        server = await serve("127.0.0.1", 0, configuration=config, stream_handler=handle)
        port.send(server._transport.get_extra_info("sockname")[1])
        await asyncio.Event().wait()

    asyncio.run(main())


async def aioquic_client(files, port, seconds):
    from aioquic.asyncio import connect
    from aioquic.quic.configuration import QuicConfiguration

    config = QuicConfiguration(alpn_protocols=["bench"], server_name="localhost")
    config.load_verify_locations(files[0])
    async with connect("127.0.0.1", port, configuration=config) as connection:
        reader, writer = await connection.create_stream()
        block, began, sent = os.urandom(BLOCK), time.perf_counter(), 0
        stream_id = writer.get_extra_info("stream_id")
        while time.perf_counter() - began < seconds:
            # Its `drain` never waits: as much is under way as its window and the peer's allow, and a block.
            writer.write(block)
            sent += BLOCK
            sender = connection._quic._streams[stream_id].sender
            while sent - sender._buffer_start > 4 << 20 and time.perf_counter() - began < seconds:
                await asyncio.sleep(0.001)
        writer.write_eof()
        total = int(await reader.read())
        return total / (time.perf_counter() - began)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=float, default=5.0, help="how long each transfer sends")
    arguments.add_argument("--rounds", type=int, default=3, help="how often each library has its turn")
    options = arguments.parse_args()

    from mendpath import aio

    identity = aio.Identity(["localhost"])
    start = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        files = (os.path.join(folder, "chain.pem"), os.path.join(folder, "key.pem"))
        for file, text in zip(files, (identity.certificate_pem(), identity.to_pem())):
            with open(file, "w") as out:
                out.write(text)
        servers, ports = [], []
        for target, argument in ((mendpath_server, identity.to_pem()), (aioquic_server, files)):
            ours, theirs = start.Pipe()
            servers.append(start.Process(target=target, args=(argument, theirs), daemon=True))
            servers[-1].start()
            ports.append(ours.recv())
        rates = {"mendpath.aio": [], "aioquic": []}
        for _ in range(options.rounds):
            rates["mendpath.aio"].append(asyncio.run(mendpath_client(identity, ports[0], options.seconds)))
            rates["aioquic"].append(asyncio.run(aioquic_client(files, ports[1], options.seconds)))
        for server in servers:
            server.terminate()
    medians = {name: statistics.median(values) for name, values in rates.items()}
    for name, values in rates.items():
        every = ", ".join(f"{value / 1e6:.1f}" for value in values)
        print(f"{name:14} {medians[name] / 1e6:8.1f} MB/s   ({every})")
    print(f"ratio          {medians['mendpath.aio'] / medians['aioquic']:8.1f}")


if __name__ == "__main__":
    main()
