"""What Ray costs: a plan with ``mendpath.sim.run`` and as ``mendpath.sweep`` over a Ray cluster of as many nodes of one
processor, on this machine, one after the other. Needs a release build of the package with ``[ray]``.

    python python/bench/sweep.py plans/fuso-fig6ab [--scale quick] [--seeds N] [--nodes 2] [--kill]

Ray's start is not counted, that of its workers is. With --kill the sweep is done once more, and a node is killed, with all
its processes, when a third of the runs is done.
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
    arguments.add_argument("--nodes", type=int, default=2)
    arguments.add_argument("--kill", action="store_true")
    options = arguments.parse_args()

    import ray
    from ray.cluster_utils import Cluster

    plan = sim.Plan(options.plan, options.scale)
    guess = mendpath.estimate(plan, seeds=options.seeds)
    print(f"estimate       {guess}; {guess.seconds(options.nodes):.1f} s", flush=True)

    alone, one = timed(lambda: sim.run(plan, seeds=options.seeds, jobs=options.nodes, progress=False))
    print(f"--jobs {options.nodes}       {one:8.1f} s", flush=True)

    # The driver's own node does no work.
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    nodes = [cluster.add_node(num_cpus=1) for _ in range(options.nodes)]
    cluster.wait_for_nodes()
    ray.init(address=cluster.address, log_to_driver=False, logging_level="error")

    def sweep(look=False):
        with tempfile.TemporaryDirectory() as out:
            return mendpath.sweep(plan, seeds=options.seeds, out=out, progress=look)

    def verdict(rows):
        return f"rows {'equal' if rows.runs.equals(alone.runs) else 'DIFFER'}"

    swept, two = timed(sweep)
    print(f"sweep          {two:8.1f} s")
    print(f"overhead       {100 * (two / one - 1):8.1f} %; {verdict(swept)}", flush=True)
    if options.kill:

        def kill(done, runs):
            if nodes and 3 * done >= runs:
                cluster.remove_node(nodes.pop(), allow_graceful=False)
                nodes.clear()

        swept, took = timed(lambda: sweep(kill))
        print(f"a node killed  {took:8.1f} s; {verdict(swept)}")
    ray.shutdown()
    cluster.shutdown()


def timed(work):
    began = time.perf_counter()
    result = work()
    return result, time.perf_counter() - began


if __name__ == "__main__":
    main()
