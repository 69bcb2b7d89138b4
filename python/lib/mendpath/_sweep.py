"""A plan over the machines of a Ray cluster."""

from __future__ import annotations

import dataclasses
import os
import time
from typing import Any, Callable, Mapping, Optional, Union

from . import __version__, sim

# What a task should last: long beside its cost in Ray, short beside what a lost machine costs.
TASK_SECONDS = 20.0
# Most runs of a task, however short they are.
TASK_RUNS = 10_000


# What this worker has prepared: the last plan, which the next task most probably is of.
_prepared: dict = {}


def _task(version: str, source: tuple, seeds: int, runs: list) -> tuple:
    """What a worker does: its rows, and the seconds that they took."""
    if version != __version__:
        raise RuntimeError(f"a worker has mendpath {__version__}, the driver {version}: install the same everywhere")
    began = time.monotonic()
    if (source, seeds) not in _prepared:
        _prepared.clear()
        _prepared[source, seeds] = sim._plan_of(source)._native.campaign(seeds, None)
    try:
        rows, _ = _prepared[source, seeds].run_these(runs)
    except BaseException:
        # What is worked out once may have been ended in its midst.
        _prepared.clear()
        raise
    return rows, time.monotonic() - began


@dataclasses.dataclass(frozen=True)
class Estimate:
    """What a plan will cost, as far as some of its runs tell."""

    #: Runs that are left.
    runs: int
    #: Packet-hops of one on average.
    hops_per_run: float
    #: Packet-hops that a processor of this machine does in a second.
    hops_per_second: float
    #: Seconds of one processor for all of them.
    processor_seconds: float
    #: Tasks that a sweep makes of them.
    tasks: int

    def seconds(self, processors: int) -> float:
        """How long so many processors take, at best."""
        return self.processor_seconds / processors

    def __str__(self) -> str:
        return (
            f"{self.runs} runs of {self.hops_per_run:,.0f} packet-hops, {self.processor_seconds:,.0f} s of one processor,"
            f" some {self.tasks} tasks"
        )


def estimate(
    plan: Union[sim.Plan, str, os.PathLike, Mapping[str, Any]],
    *,
    out: Union[str, os.PathLike, None] = None,
    seeds: Optional[int] = None,
    scale: str = "quick",
    samples: int = 8,
) -> Estimate:
    """What :func:`sweep` or :func:`mendpath.sim.run` will cost: does some of the runs that are left, here, and tells.

    :param out: the folder of rows; those that are there cost nothing any more.
    :param samples: how many runs to do, spread evenly over those that are left: all points and schemes have their share
        if there are enough.
    :raises mendpath.sim.PlanError: when something in the plan cannot be.
    """
    plan = plan if isinstance(plan, sim.Plan) else sim.Plan(plan, scale)
    sim._check_seeds(seeds)
    if samples < 1:
        raise ValueError("samples is at least 1")
    folder = None if out is None else os.fspath(out)
    campaign = sim._checked(plan._native.campaign, plan.seeds if seeds is None else seeds, folder)
    left = campaign.left()
    if not left:
        return Estimate(0, 0.0, 0.0, 0.0, 0)
    samples = min(samples, len(left))
    # In the middle of as many equal parts.
    chosen = [left[(2 * part + 1) * len(left) // (2 * samples)] for part in range(samples)]
    began = time.perf_counter()
    _, hops = campaign.run_these(chosen)
    took = max(time.perf_counter() - began, 1e-9)
    every = took / samples * len(left)
    size = max(1, min(TASK_RUNS, int(TASK_SECONDS * samples / took)))
    return Estimate(len(left), hops / samples, hops / took, every, -(-len(left) // size))


def sweep(
    plan: Union[sim.Plan, str, os.PathLike, Mapping[str, Any]],
    *,
    out: Union[str, os.PathLike],
    address: Optional[str] = None,
    seeds: Optional[int] = None,
    scale: str = "quick",
    progress: Union[bool, Callable[[int, int], None], None] = None,
) -> sim.Results:
    """Runs a plan over a Ray cluster (``pip install mendpath[ray]``).

    Tasks of some 20 s give their rows to this process, which alone writes, to the files of :func:`mendpath.sim.run`
    with the same ``out``. Every row is kept when it arrives: a lost worker or machine costs the tasks that it was at,
    which Ray gives to others, and so does this process when it is killed; call it again. The rows are those of one
    process, to the last digit.

    :param plan: a plan, or what makes one.
    :param out: the folder in which rows are kept, on this machine.
    :param address: as ``ray.init`` has it; by default the cluster that is there, else one of this machine alone.
    :param seeds: how many seeds, instead of the plan's own number.
    :param scale: ``"quick"``, ``"medium"`` or ``"paper"``, if ``plan`` is not a :class:`mendpath.sim.Plan` yet.
    :param progress: as for :func:`mendpath.sim.run`.
    :raises mendpath.sim.PlanError: when something in the plan cannot be.
    """
    import ray

    plan = plan if isinstance(plan, sim.Plan) else sim.Plan(plan, scale)
    sim._check_seeds(seeds)
    seeds = plan.seeds if seeds is None else seeds
    out = os.fspath(out)
    if not ray.is_initialized():
        ray.init(address=address, log_to_driver=False)
    campaign = sim._checked(plan._native.campaign, seeds, out)
    left = campaign.left()
    total = plan.runs // plan.seeds * seeds
    look, end = sim._progress(plan.name, progress)
    work = ray.remote(max_retries=-1, num_cpus=1)(_task)
    source = ray.put(plan._source)
    per_run: Optional[float] = None
    running: dict[Any, list[int]] = {}
    try:
        while left or running:
            # No more than two for each processor, so that what a task lasts can still be learnt.
            room = 2 * max(1, int(ray.cluster_resources().get("CPU", 1))) - len(running)
            while left and room > 0:
                size = 1 if per_run is None else max(1, min(TASK_RUNS, int(TASK_SECONDS / max(per_run, 1e-6))))
                # The last tasks are shorter, so that no machine waits long for another.
                size = min(size, max(1, len(left) // (2 * (room + len(running)))))
                batch, left = left[:size], left[size:]
                running[work.remote(__version__, source, seeds, batch)] = batch
                room -= 1
            ready, _ = ray.wait(list(running), timeout=1.0)
            for task in ready:
                runs = running.pop(task)
                rows, seconds = ray.get(task)
                campaign.keep(rows)
                this = seconds / len(runs)
                per_run = this if per_run is None else 0.7 * per_run + 0.3 * this
            look(total - len(left) - sum(map(len, running.values())), total)
    finally:
        end()
        for task in running:
            ray.cancel(task)
    return sim.run(plan, seeds=seeds, jobs=1, out=out, progress=False)
