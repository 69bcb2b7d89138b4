"""What Ray costs: a plan with ``mendpath.sim.run(jobs=2)`` and as ``mendpath.sweep`` over a Ray of two processors, on this
machine, one after the other. Needs a release build of the package with ``[ray]``.

    python python/bench/sweep.py plans/fuso-fig6ab [--scale quick] [--seeds N] [--jobs 2]

Ray's start is not counted, that of its workers is.
"""

import argparse
import tempfile
import time

import mendpath
from mendpath import sim


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("plan")
    arguments.add_argument("--scale", default="quick")
    arguments.add_argument("--seeds", type=int)
    arguments.add_argument("--jobs", type=int, default=2)
    options = arguments.parse_args()

    import ray

    plan = sim.Plan(options.plan, options.scale)
    guess = mendpath.estimate(plan, seeds=options.seeds)
    print(f"estimate       {guess}; {guess.seconds(options.jobs):.1f} s", flush=True)

    began = time.perf_counter()
    alone = sim.run(plan, seeds=options.seeds, jobs=options.jobs, progress=False)
    one = time.perf_counter() - began
    print(f"--jobs {options.jobs}       {one:8.1f} s", flush=True)

    ray.init(num_cpus=options.jobs, log_to_driver=False, include_dashboard=False)
    with tempfile.TemporaryDirectory() as out:
        began = time.perf_counter()
        swept = mendpath.sweep(plan, seeds=options.seeds, out=out, progress=False)
        two = time.perf_counter() - began
    ray.shutdown()
    print(f"sweep          {two:8.1f} s")
    print(f"overhead       {100 * (two / one - 1):8.1f} %; rows {'equal' if swept.runs.equals(alone.runs) else 'DIFFER'}")


if __name__ == "__main__":
    main()
