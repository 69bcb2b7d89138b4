"""Plans, and what comes of running them.

A plan says what is simulated: a network, what is broken, traffic, schemes, a sweep, metrics and figures.
It is a file in TOML, as in the folder ``plans`` of the repository, or the same as a dictionary.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Callable, Iterable, Mapping, Optional, Sequence, Union

from . import _native
from ._native import Ack, Copy, Packet, Path, Unsent, Wait
from ._parts import Controller, LossModel, PartError, Scheduler, Scheme, brought
from ._table import table

if TYPE_CHECKING:
    import pyarrow

__all__ = [
    "Ack",
    "Controller",
    "Copy",
    "Figure",
    "Interrupted",
    "LossModel",
    "Packet",
    "PartError",
    "Path",
    "Plan",
    "PlanError",
    "Results",
    "Scheduler",
    "Scheme",
    "Simulation",
    "Unsent",
    "Wait",
    "merge",
    "run",
    "simulate",
]


class PlanError(ValueError):
    """A plan that cannot be used. The message names file, line, key, and what may stand there.

    :ivar line: the line in the file, where there is one.
    """

    def __init__(self, message: str, line: Optional[int] = None):
        super().__init__(message)
        self.line = line


class Interrupted(KeyboardInterrupt):
    """Ctrl-C came while a plan ran.

    :ivar results: the :class:`Results` of the runs that were finished.
    """

    def __init__(self, results: "Results"):
        super().__init__(f"interrupted after {len(results)} runs; they are in `results` of this exception")
        self.results = results


def _checked(native: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return native(*arguments)
    except ValueError as error:
        if len(error.args) != 2:
            raise
        raise PlanError(*error.args) from None


class Plan:
    """A plan at one scale, checked.

    :param source: a file, its folder, a text in TOML, or a dictionary with the same keys.
    :param scale: ``"quick"``, ``"medium"`` or ``"paper"``.
    :param name: what it is called; that of its folder by default.
    :param uses: classes of your own that it names: each a :class:`Scheme`, :class:`Controller`, :class:`Scheduler` or
        :class:`LossModel`, by its ``name`` if it has one, else by that of the class.
    :raises PlanError: when something in it cannot be.
    """

    def __init__(
        self,
        source: Union[str, os.PathLike, Mapping[str, Any]],
        scale: str = "quick",
        name: Optional[str] = None,
        uses: Sequence[type] = (),
    ):
        self._uses = tuple(uses)
        classes = brought(self._uses)
        if isinstance(source, Mapping):
            self._native = _checked(_native.NativePlan.from_dict, name or "plan", dict(source), scale, classes)
        elif isinstance(source, str) and "\n" in source:
            self._native = _checked(_native.NativePlan.parse, name or "plan", source, scale, classes)
        else:
            file = os.fspath(source)
            if os.path.isdir(file):
                file = os.path.join(file, "plan.toml")
            self._native = _checked(_native.NativePlan.load, file, scale, classes)

    @property
    def _source(self) -> tuple:
        """For machines that have neither its file nor those that it names."""
        return (self.name, self._native.text(), self.scale, self._uses)

    @property
    def name(self) -> str:
        """What it is called."""
        return self._native.name

    @property
    def title(self) -> str:
        """What it shows."""
        return self._native.title

    @property
    def claims(self) -> list[str]:
        """Which statements of the papers it is about."""
        return self._native.claims

    @property
    def scale(self) -> str:
        """``quick``, ``medium`` or ``paper``."""
        return self._native.scale

    @property
    def seeds(self) -> int:
        """Seeds of every point and scheme, from 1 on."""
        return self._native.seeds

    @property
    def axes(self) -> list[str]:
        """What is varied."""
        return self._native.axes

    @property
    def schemes(self) -> list[str]:
        """What is compared."""
        return self._native.schemes

    @property
    def metrics(self) -> list[str]:
        """What is measured."""
        return self._native.metrics

    @property
    def figures(self) -> list[str]:
        """What is drawn."""
        return self._native.figures

    @property
    def runs(self) -> int:
        """How many simulations it takes."""
        return self._native.runs

    @property
    def hash(self) -> str:
        """Of all that rows depend on."""
        return self._native.hash

    def as_dict(self) -> dict[str, Any]:
        """The plan at its scale as a dictionary, with what stands in the files that it names: to be changed and made a
        plan again."""
        return self._native.as_dict()

    def __repr__(self) -> str:
        return f"<Plan {self.name} ({self.scale}): {self.title}; {self.runs} runs>"


def _plan_of(source: tuple) -> Plan:
    """The plan of another machine."""
    name, text, scale, uses = source
    return Plan(text, scale, name, uses)


class Figure:
    """A picture that notebooks show."""

    def __init__(self, name: str, svg: str):
        self.name = name
        #: The picture itself.
        self.svg = svg

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, file: Union[str, os.PathLike]) -> None:
        """Writes it as SVG."""
        with open(file, "w", encoding="utf-8") as out:
            out.write(self.svg)

    def __repr__(self) -> str:
        return f"<Figure {self.name}>"


class Results:
    """The rows of a plan. Its tables are of Arrow; ``to_pandas()`` and ``polars.from_arrow`` take them."""

    def __init__(self, plan: Plan, native: "_native.NativeResults"):
        #: The plan.
        self.plan = plan
        self._native = native

    def __len__(self) -> int:
        return len(self._native)

    @property
    def runs(self) -> pyarrow.Table:
        """A row for each run: scheme, the axes, seed, trace hash, packet-hops, and a column for each metric."""
        return table(self._native.runs())

    @property
    def summary(self) -> pyarrow.Table:
        """A row for each point, scheme and metric: mean and 95 % confidence interval over the seeds."""
        return table(_checked(self._native.summary))

    @property
    def distributions(self) -> pyarrow.Table:
        """Completion times in ms and the share of flows at or below; empty unless the plan asks for them."""
        return table(self._native.distributions())

    @property
    def timelines(self) -> pyarrow.Table:
        """Congestion windows over time in the first seed's runs; empty unless the plan asks for samples."""
        return table(self._native.timelines())

    def figure(self, name: Optional[str] = None) -> Figure:
        """One of the plan's figures, by default the first.

        :raises KeyError: when the plan has none of that name; the message says which there are.
        """
        there = self.plan.figures
        chosen = name if name is not None else next(iter(there), None)
        if chosen not in there:
            raise KeyError(f"there is no figure {chosen!r}; there are: {', '.join(there) or 'none'}")
        return Figure(chosen, _checked(self._native.figure, chosen))

    def __repr__(self) -> str:
        return f"<Results of {self.plan.name}: {len(self)} of {self._native.asked()} runs>"


def run(
    plan: Union[Plan, str, os.PathLike, Mapping[str, Any]],
    *,
    seeds: Optional[int] = None,
    jobs: Optional[int] = None,
    scale: str = "quick",
    out: Union[str, os.PathLike, None] = None,
    shard: Optional[str] = None,
    progress: Union[bool, Callable[[int, int], None], None] = None,
) -> Results:
    """Runs a plan over the cores. Other Python threads go on meanwhile.

    :param plan: a :class:`Plan`, or what makes one.
    :param seeds: how many seeds, instead of the plan's own number.
    :param jobs: how many threads; by default one for each core.
    :param scale: ``"quick"``, ``"medium"`` or ``"paper"``, if ``plan`` is not a :class:`Plan` yet.
    :param out: a folder in which each row is kept when it is finished; the next time goes on from there.
    :param shard: ``"2/8"``: of the runs, the second of eight parts. :func:`merge` puts them together.
    :param progress: true or false to show how far it is, or a function of runs done and runs in all. By default it
        is shown in terminals and notebooks.
    :raises Interrupted: on Ctrl-C, with the rows that were finished.
    :raises PartError: when a class of the plan's ``uses`` raises, or answers what cannot be. Finished rows are kept in
        ``out``.
    """
    plan = plan if isinstance(plan, Plan) else Plan(plan, scale)
    jobs = jobs if jobs is not None else os.cpu_count() or 1
    if jobs < 1:
        raise ValueError("jobs is at least 1")
    _check_seeds(seeds)
    look, done = _progress(plan.name, progress)
    try:
        native, raised = _checked(plan._native.run, seeds, jobs, None if out is None else os.fspath(out), shard, look)
    finally:
        done()
    results = Results(plan, native)
    if isinstance(raised, KeyboardInterrupt):
        raise Interrupted(results) from None
    if raised is not None:
        raise raised
    return results


class Simulation:
    """A point of a plan with one seed: flows, and packets of the slowest ones. Its tables are of Arrow."""

    def __init__(self, plan: Plan, flows: bytes, packets: bytes, traces: Iterable[tuple[str, str]]):
        #: The plan.
        self.plan = plan
        #: By scheme, the hash over every event: equal if and only if everything happened alike.
        self.traces = dict(traces)
        self._flows = flows
        self._packets = packets

    @property
    def flows(self) -> pyarrow.Table:
        """A row for each measured flow: scheme, size, start, completion time, timeouts, what was sent again."""
        return table(self._flows)

    @property
    def packets(self) -> pyarrow.Table:
        """A row for each thing that happened to the flows that were watched, in the order of its happening.

        ``event`` is what: ``written``, ``sent`` (``how``: ``new``, ``again``, ``copy``, ``parity``), ``lost`` or
        ``dropped`` at a ``port``, ``acknowledged`` up to before ``number`` with ``sack`` blocks, ``reply lost``,
        ``repaired``, ``recovery``, ``timeout``, ``probe``, ``finished``. ``number`` is a segment of the ``sub_flow``,
        ``data_number`` the same in the connection's data, ``amount`` bytes written or segments repaired.
        """
        return table(self._packets)

    def __repr__(self) -> str:
        return f"<Simulation of {self.plan.name}: {', '.join(self.traces)}>"


def simulate(
    plan: Union[Plan, str, os.PathLike, Mapping[str, Any]],
    *,
    at: Optional[Mapping[str, Any]] = None,
    scheme: Optional[str] = None,
    seed: int = 1,
    watch: int = 1,
    scale: str = "quick",
) -> Simulation:
    """Runs one point of a plan, with one seed, and watches its slowest flows packet by packet.

    :param plan: a :class:`Plan`, or what makes one.
    :param at: values of the plan's axes, ``{"loss": 0.05}``; the first value of those that are not named.
    :param scheme: only this one.
    :param watch: how many flows of each scheme to watch, the slowest first; those that do not end are the slowest.
    :param scale: ``"quick"``, ``"medium"`` or ``"paper"``, if ``plan`` is not a :class:`Plan` yet.
    :raises PlanError: when the plan has no such point or scheme.
    :raises PartError: as :func:`run`.
    """
    plan = plan if isinstance(plan, Plan) else Plan(plan, scale)
    if watch < 0 or seed < 0:
        raise ValueError("watch and seed are at least 0")
    point = [(axis, str(value)) for axis, value in (at or {}).items()]
    return Simulation(plan, *_checked(plan._native.single, point, scheme, seed, watch))


def _check_seeds(seeds: Optional[int]) -> None:
    if seeds is not None and not 1 <= seeds <= 1_000_000:
        raise ValueError("seeds is from 1 to 1,000,000")


def merge(plan: Plan, parts: Iterable[Results], seeds: Optional[int] = None) -> Results:
    """Puts the parts of a plan together, such as those of shards on several machines. What several of them have counts
    once.

    :param seeds: how many seeds the parts are of, if that is more than the plan's own number, and than they show.
    :raises PlanError: when a row is of another plan, or two rows of one run differ.
    """
    rows = [row for part in parts for row in part._native.rows()]
    return Results(plan, _checked(plan._native.results, rows, seeds or plan.seeds))


def _progress(name: str, wanted: Union[bool, Callable[[int, int], None], None]):
    """What is told how far it is, and what ends it."""
    if callable(wanted):
        return wanted, lambda: None
    notebook = "ipykernel" in sys.modules
    if wanted is None:
        wanted = notebook or sys.stderr.isatty()
    if not wanted:
        return lambda done, runs: None, lambda: None
    out = sys.stdout if notebook else sys.stderr
    shown = [-1]

    def look(done: int, runs: int) -> None:
        if done != shown[0]:
            shown[0] = done
            out.write(f"\r{name} {done}/{runs}")
            out.flush()

    def end() -> None:
        if shown[0] >= 0:
            out.write("\r" + " " * (len(name) + 24) + "\r")
            out.flush()

    return look, end
