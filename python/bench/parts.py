"""What classes of Python cost in a simulation, beside the simulator's own parts. Needs a release build of the package.

    python python/bench/parts.py [--seeds 20] [--rounds 5]

The same plan with the simulator's part and with a class that decides alike, so that the trace is the same; medians of rounds
in turns, one thread. The scheme has no counterpart that decides alike: it is put beside FUSO.
"""

import argparse
import math
import statistics
import time

from mendpath import sim

PLAN = """
title = "What classes cost"
metrics = ["fct_p99_ms"]
topology = { kind = "parallel-paths" }
tcp = { preset = "fuso" }
fault = [{ links = "paths", index = 0, loss = 0.02 }]
workload = { kind = "spaced", from = "first", to = "second", flows = 100, apart_ms = 5, bytes = 200_000 }
scheme = [{ kind = "mptcp", subflows = 4 }]
limit_s = 60
"""


class Aimd(sim.Controller):
    threshold = math.inf

    def on_ack(self, ack):
        if ack.in_recovery or not ack.limited:
            return
        left = float(ack.segments)
        if self.window < self.threshold:
            used = min(left, self.threshold - self.window)
            self.window, left = self.window + used, left - used
        if left > 0.0:
            self.window += left / self.window

    def on_loss(self, now, flight):
        self.window = self.threshold = max(2.0, float(min(flight, self.window) // 2))


class LowestRtt(sim.Scheduler):
    def choose(self, now, paths, unsent):
        return min((path.failed, path.rtt, path.number) for path in paths if path.room)[2]


class Every(sim.LossModel):
    def lose(self, packet):
        return packet.index % 50 == 49


class Neighbour(sim.Scheme):
    def on_opportunity(self, now, paths):
        for path in paths:
            other = paths[(path.number + 1) % len(paths)]
            if path.oldest is not None and other.room:
                return sim.Copy(of=path.number, on=other.number)


def changed(*replaced, uses=()):
    text = PLAN
    for old, new in replaced:
        assert old in text
        text = text.replace(old, new)
    return sim.Plan(text, uses=uses)


EVERY = f"nth = {list(range(49, 200_000, 50))}"
PAIRS = [
    ("Controller", changed(), changed(('"fuso"', '"fuso", congestion = "Aimd"'), uses=[Aimd])),
    ("Scheduler", changed(), changed(('"fuso"', '"fuso", scheduler = "LowestRtt"'), uses=[LowestRtt])),
    ("LossModel", changed(("loss = 0.02", EVERY)), changed(("loss = 0.02", 'model = "Every"'), uses=[Every])),
    ("Scheme", changed(('"mptcp"', '"fuso"')), changed(('"mptcp"', '"Neighbour"'), uses=[Neighbour])),
]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seeds", type=int, default=20)
    arguments.add_argument("--rounds", type=int, default=5)
    options = arguments.parse_args()

    def once(plan):
        campaign = plan._native.campaign(options.seeds, None)
        began = time.perf_counter()
        _, hops = campaign.run_these(list(range(options.seeds)))
        return (time.perf_counter() - began) / hops * 1e9

    print(f"{'':12}{'built in':>12}{'Python':>12}{'times':>8}   ns for each packet-hop")
    for name, built_in, python in PAIRS:
        if name != "Scheme":
            traces = [sim.run(plan, seeds=2, jobs=1, progress=False).runs["trace"] for plan in (built_in, python)]
            assert traces[0] == traces[1], f"{name}: the traces differ"
        rounds = [(once(built_in), once(python)) for _ in range(options.rounds)]
        ours, theirs = (statistics.median(column) for column in zip(*rounds))
        print(f"{name:12}{ours:12.0f}{theirs:12.0f}{theirs / ours:8.1f}", flush=True)


if __name__ == "__main__":
    main()
