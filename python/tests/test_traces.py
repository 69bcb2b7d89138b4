import struct
import subprocess
import sys

import pytest

from mendpath import sim, traces

CLIENT, SERVER = (bytes([192, 0, 2, 1]), 40_000), (bytes([192, 0, 2, 2]), 80)
FIN, SYN, PSH, ACK = 1, 2, 8, 16


def packet(source, to, seq, ack, flags, payload=b""):
    tcp = struct.pack("!HHIIBBHHH", source[1], to[1], seq, ack, 0x50, flags, 65_535, 0, 0)
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 40 + len(payload), 0, 0, 64, 6, 0, source[0], to[0])
    return ip + tcp + payload


def capture(packets):
    """Raw IP, in the classic format."""
    out = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 101)
    for at, data in packets:
        out += struct.pack("<IIII", int(at), round(at % 1 * 1e6), len(data), len(data)) + data
    return out


@pytest.fixture
def timeout(tmp_path):
    """A request whose answer's only packet comes again after a second of silence."""
    answer = packet(SERVER, CLIENT, 901, 111, PSH | ACK, bytes(1_000))
    file = tmp_path / "timeout.pcap"
    file.write_bytes(capture([
        (1.00, packet(CLIENT, SERVER, 100, 0, SYN)),
        (1.05, packet(SERVER, CLIENT, 900, 101, SYN | ACK)),
        (1.05, packet(CLIENT, SERVER, 101, 901, ACK)),
        (1.06, packet(CLIENT, SERVER, 101, 901, PSH | ACK, b"0123456789")),
        (1.11, answer),
        (2.11, answer),
        (2.12, packet(CLIENT, SERVER, 111, 1_901, ACK)),
    ]))
    return file


def test_what_was_sent_again_is_a_table(timeout):
    report = traces.analyze(timeout)
    assert report.retransmissions["timeouts"] == 1
    resent = report.resent
    assert resent.num_rows == 1
    assert report.flags.num_rows == len(report.data["flags"]) > 0
    assert "1 of them timeouts" in repr(report)
    assert report.page().lower().startswith("<!doctype html")
    assert "<iframe" in report._repr_html_()


def test_several_captures_belong_together(timeout, tmp_path):
    empty = tmp_path / "empty.pcap"
    empty.write_bytes(capture([]))
    assert traces.analyze([empty, timeout]).retransmissions["timeouts"] == 1


def test_mistakes_are_exceptions(timeout, tmp_path):
    with pytest.raises(OSError, match="none.pcap"):
        traces.analyze(tmp_path / "none.pcap")
    text = tmp_path / "text"
    text.write_text("no capture")
    with pytest.raises(ValueError, match="text"):
        traces.analyze(text)
    for wrong in ({"method": "mine"}, {"tail": 0}, {"loss": 2.0}, {"bandwidth_mbps": 0}, {"timeout_at_ms": 5}):
        with pytest.raises(ValueError):
            traces.analyze(timeout, **wrong)
    for wrong in ({"tail": -1}, {"tail": 1 << 40}, {"listed": -1}, {"bandwidth_mbps": -1}, {"bandwidth_mbps": float("inf")}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            traces.analyze(timeout, **wrong)


def recorded(**inputs):
    return {
        "title": "What was recorded",
        "metrics": ["fct_mean_ms"],
        "seeds": 1,
        "topology": {"kind": "dumbbell", "pairs": 2, "rtt_us": 20_000, "rate_mbps": 1_000},
        "fault": [{"links": "bottleneck", "direction": "forward", "mahimahi": inputs["capacity"]}],
        "workload": {"kind": "htsim", "matrix": inputs["matrix"]},
        "scheme": [{"kind": "tcp"}],
    }


def test_recorded_capacities_and_matrices_are_inputs(tmp_path):
    trace, matrix = tmp_path / "link.trace", tmp_path / "flows.cm"
    trace.write_text("1\n")
    matrix.write_text("Nodes 4\nConnections 1\n0->2 id 1 start 0 size 1000000\n")
    (tmp_path / "plan.toml").write_text(
        """
title = "What was recorded"
metrics = ["fct_mean_ms"]
seeds = 1
topology = { kind = "dumbbell", pairs = 2, rtt_us = 20_000, rate_mbps = 1_000 }
fault = [{ links = "bottleneck", direction = "forward", mahimahi = "link.trace" }]
workload = { kind = "htsim", matrix = "flows.cm" }
scheme = [{ kind = "tcp" }]
"""
    )
    by_name = sim.run(tmp_path / "plan.toml")
    by_object = sim.run(recorded(capacity=traces.mahimahi(trace), matrix=traces.htsim(matrix)))
    by_data = sim.run(recorded(capacity=traces.mahimahi([1]), matrix=traces.htsim([(0, 2, 0.0, 1_000_000)])))
    times = [results.runs["fct_mean_ms"].to_pylist() for results in (by_name, by_object, by_data)]
    # 12 Mbit/s.
    assert times[0] == times[1] == times[2] and 667 < times[0][0] < 1_500

    # Another machine needs none of the files.
    plan = by_name.plan
    trace.unlink()
    matrix.unlink()
    elsewhere = sim._plan_of(plan._source)
    assert elsewhere.hash == plan.hash
    assert sim.run(elsewhere).runs.equals(by_name.runs)


def test_what_is_wrong_in_an_input_has_its_line(tmp_path):
    file = tmp_path / "bad.trace"
    file.write_text("1\n\noops\n")
    with pytest.raises(sim.PlanError, match=r"bad\.trace, line 3: `oops`"):
        sim.Plan(recorded(capacity=traces.mahimahi(file), matrix=traces.htsim([(0, 2, 0.0, 1)])))
    with pytest.raises(sim.PlanError, match="line 2: node 7"):
        sim.Plan(recorded(capacity=traces.mahimahi([1]), matrix=traces.htsim([(0, 2, 0.0, 1), (7, 2, 0.0, 1)])))
    with pytest.raises(FileNotFoundError):
        traces.mahimahi(tmp_path / "none")


def test_an_interrupt_ends_an_analysis(timeout):
    """The capture has no end."""
    code = (
        "import os, signal, sys, threading\n"
        "from mendpath import traces\n"
        "read, write = os.pipe()\n"
        "data = open(sys.argv[1], 'rb').read()\n"
        "def feed():\n"
        "    os.write(write, data[:24])\n"
        "    while True:\n"
        "        os.write(write, data[24:])\n"
        "threading.Thread(target=feed, daemon=True).start()\n"
        "threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "try:\n"
        "    traces.analyze(f'/dev/fd/{read}')\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted', flush=True)\n"
        "os._exit(0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(timeout)], capture_output=True, text=True, timeout=120)
    assert done.stdout == "interrupted\n", done.stderr
