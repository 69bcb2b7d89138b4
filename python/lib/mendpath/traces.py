"""What lost packets cost: the analysis of ``mendpath trace analyze`` as tables; and traces as inputs of plans.

Captures are pcap or pcapng, of Ethernet, Linux cooked, raw IP or BSD loopback. Every byte of them is taken as hostile.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Iterable, Optional, Union

from . import _native
from ._table import rows

if TYPE_CHECKING:
    import pyarrow

__all__ = ["Report", "analyze", "htsim", "mahimahi"]

Files = Union[str, os.PathLike, "list[Union[str, os.PathLike]]"]


class Report:
    """What was found. ``data`` is all of it, as ``--json`` writes it (docs/trace.md)."""

    def __init__(self, files: list, wanted: dict):
        self._files, self._wanted = files, wanted
        #: Everything, as dictionaries and lists.
        self.data: dict[str, Any] = json.loads(_native.analyze(files, wanted))

    @property
    def warnings(self) -> list[str]:
        """What to bear in mind."""
        return self.data["warnings"]

    @property
    def retransmissions(self) -> dict[str, Any]:
        """Counts: timeouts, fast retransmissions, go-back-N, needless ones and so on."""
        return self.data["retransmissions"]

    @property
    def resent(self) -> pyarrow.Table:
        """What was sent again, one by one, in the order of time; at most ``listed``."""
        return rows(self.data["resent"])

    @property
    def lost_packets(self) -> pyarrow.Table:
        """What SLP's arbiter says of each lost packet, in the order of time; at most ``listed``."""
        return rows(self.data["lost_packets"])

    @property
    def flags(self) -> pyarrow.Table:
        """Share of timeouts by TCP flags (SLP, figures 3 and 4)."""
        return rows(self.data["flags"])

    @property
    def positions(self) -> pyarrow.Table:
        """Share of timeouts by the position in the flow (SLP, figures 1 and 2)."""
        series = self.data["positions"]
        return rows([{"heading": s["heading"], "half": s["half"], **p} for s in series for p in s["points"]])

    @property
    def what_if(self) -> list[dict[str, Any]]:
        """What duplicating SYN, PSH and tail packets would save (SLP, table I)."""
        return self.data["what_if"]

    def page(self) -> str:
        """The page of ``--html``; reads the captures again."""
        return _native.page(self._files, self._wanted)

    def _repr_html_(self) -> str:
        import html

        return f'<iframe style="width:100%;height:40em;border:0" srcdoc="{html.escape(self.page(), quote=True)}"></iframe>'

    def __repr__(self) -> str:
        found = self.retransmissions
        return (
            f"<Report: {self.data['packets']['tcp']:,} TCP packets, {found['analysed']:,} retransmissions analysed, "
            f"{found['timeouts']:,} of them timeouts>"
        )


def analyze(
    files: Files,
    *,
    method: str = "ack-clock",
    timeout_at_ms: Optional[int] = None,
    tail: int = 1,
    loss: Optional[float] = None,
    bandwidth_mbps: float = 10,
    measured_odds: bool = False,
    listed: int = 100_000,
) -> Report:
    """Analyses captures that belong together, in the order of time. Other Python threads go on meanwhile.

    :param files: one capture, or several.
    :param method: how timeouts are told from fast retransmissions: ``"ack-clock"``, or ``"paper"`` (SLP's clusters).
    :param timeout_at_ms: with the paper's method, intervals from here on are timeouts, without clusters.
    :param tail: how many packets at a connection's end the what-if duplicates, 1 to 100.
    :param loss: the arbiter's p; by default the capture's own estimate.
    :param bandwidth_mbps: the arbiter's bandwidth.
    :param measured_odds: the arbiter's q from this capture instead of the paper's.
    :param listed: how many packets are listed one by one.
    :raises OSError: when a file cannot be read.
    :raises ValueError: when one is no capture, or an argument cannot be.
    """
    every = [files] if isinstance(files, (str, os.PathLike)) else files
    named = [os.fspath(file) for file in every]
    if timeout_at_ms is not None and method != "paper":
        raise ValueError("timeout_at_ms is of the method `paper`")
    # Of numbers that its types do not hold the native half would say so by other exceptions.
    if not 1 <= tail <= 100:
        raise ValueError("tail is from 1 to 100")
    if not 0 < bandwidth_mbps <= 1e9:
        raise ValueError("bandwidth_mbps is more than 0, and 1e9 at most")
    for name, value in (("timeout_at_ms", timeout_at_ms), ("listed", listed)):
        if value is not None and not 0 <= value < 1 << 62:
            raise ValueError(f"{name} is from 0 to below 2^62")
    wanted = {
        "method": method,
        "timeout_at_ms": timeout_at_ms,
        "tail": tail,
        "loss": loss,
        "bandwidth_bits_per_second": round(bandwidth_mbps * 1e6),
        "measured_odds": measured_odds,
        "listed": listed,
    }
    return Report(named, wanted)


def mahimahi(source: Union[str, os.PathLike, Iterable[int]]) -> dict[str, str]:
    """A recorded capacity, for the key ``mahimahi`` of a plan's ``[[fault]]``.

    :param source: a file in mahimahi's format, or the times of delivery opportunities of 1,500 bytes: whole
        milliseconds, in order. After the last one they begin anew.
    :raises OSError: when the file cannot be read. What is wrong in it the plan says, with its line.
    """
    if isinstance(source, (str, os.PathLike)):
        return _file(source)
    return {"name": "times", "text": "".join(f"{time}\n" for time in source)}


def htsim(source: Union[str, os.PathLike, Iterable[tuple[int, int, float, int]]]) -> dict[str, str]:
    """A connection matrix, for the key ``matrix`` of a plan's workload ``htsim``.

    :param source: a file ``.cm`` of htsim, or rows of sender, receiver, start in seconds, and bytes.
    :raises OSError: when the file cannot be read. What is wrong in it the plan says, with its line.
    """
    if isinstance(source, (str, os.PathLike)):
        return _file(source)
    lines = (f"{sender}->{to} start {round(start * 1e12)} size {size}\n" for sender, to, start, size in source)
    return {"name": "rows", "text": "".join(lines)}


def _file(file: Union[str, os.PathLike]) -> dict[str, str]:
    with open(file, encoding="utf-8") as text:
        return {"name": os.path.basename(os.fspath(file)), "text": text.read()}
