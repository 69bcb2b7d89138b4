"""Mendpath's simulator, trace analysis and transport, for Python.

>>> from mendpath import sim
>>> results = sim.run("plans/cofuso-fig9", seeds=2)    # a plan of the repository, or your own
>>> results.summary.to_pandas()
>>> results.figure()                                   # drawn where notebooks show it

>>> from mendpath import traces
>>> traces.analyze("capture.pcap").retransmissions

The transport for asyncio is :mod:`mendpath.aio`. Over many machines, with Ray: ``mendpath.sweep(plan, out="results", address="auto")``.

The simulator is the one of the command ``mendpath experiment``: the same plan and seed give the same
rows, to the last digit, on every machine.
"""

from ._native import __version__

__all__ = ["__version__", "aio", "estimate", "sim", "sweep", "traces"]


def __getattr__(name):
    # Each when it is first asked for.
    if name in ("aio", "sim", "traces"):
        import importlib

        return importlib.import_module(f"{__name__}.{name}")
    if name in ("estimate", "sweep"):
        from . import _sweep

        return getattr(_sweep, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return __all__
