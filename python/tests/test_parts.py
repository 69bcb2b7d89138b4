import math
import os
import pickle
import subprocess
import sys
import time
import traceback

import pytest

from mendpath import sim

PLAN = """
title = "Classes of Python in a plan"
metrics = ["fct_p99_ms", "extra_share"]
seeds = 2
topology = { kind = "parallel-paths" }
tcp = { preset = "fuso" }
fault = [{ links = "paths", index = 0, loss = 0.05 }]
workload = { kind = "spaced", from = "first", to = "second", flows = 30, apart_ms = 20, bytes = 50_000 }
scheme = [{ kind = "mptcp", subflows = 4 }]
limit_s = 30
"""


def plan(*uses, **changes):
    text = PLAN
    for old, new in changes.pop("replaced", {}).items():
        assert old in text
        text = text.replace(old, new)
    return sim.Plan(text, uses=uses)


def traces(plan, **how):
    return sim.run(plan, **how).runs.column("trace").to_pylist()


class Aimd(sim.Controller):
    """RFC 5681 in segments, as the simulator's `reno`."""

    threshold = math.inf

    def on_ack(self, ack):
        if ack.in_recovery or not ack.limited:
            return
        left = float(ack.segments)
        if self.window < self.threshold:
            used = min(left, self.threshold - self.window)
            self.window += used
            left -= used
        if left > 0.0:
            self.window += left / self.window

    def on_loss(self, now, flight):
        self.window = self.threshold = max(2.0, float(min(flight, self.window) / 2.0 // 1))


class LowestRtt(sim.Scheduler):
    def choose(self, now, paths, unsent):
        ready = [path for path in paths if path.room]
        return min(ready, key=lambda path: (path.failed, path.rtt, path.number)).number


class Every(sim.LossModel):
    nth = 6

    def lose(self, packet):
        return packet.index % self.nth == self.nth - 1


class Chance(sim.LossModel):
    rate = 0.05

    def lose(self, packet):
        return self.random.random() < self.rate


class Neighbour(sim.Scheme):
    """Each path's oldest segment once more over the next path."""

    def on_opportunity(self, now, paths):
        for path in paths:
            other = paths[(path.number + 1) % len(paths)]
            if path.oldest is not None and other.room:
                return sim.Copy(of=path.number, on=other.number)


def test_a_controller_does_as_the_simulators_own_to_the_digit_of_the_trace():
    ours = plan(Aimd, replaced={'preset = "fuso"': 'preset = "fuso", congestion = "Aimd"'})
    assert traces(ours) == traces(plan())
    assert ours.hash != plan().hash


def test_a_scheduler_does_as_the_simulators_own():
    ours = plan(LowestRtt, replaced={'preset = "fuso"': 'preset = "fuso", scheduler = "LowestRtt"'})
    assert traces(ours, jobs=2) == traces(plan())


def test_a_scheduler_may_prefer_what_it_likes():
    class Last(sim.Scheduler):
        name = "last"

        def choose(self, now, paths, unsent):
            return max((path.number for path in paths if path.room), default=None)

    ours = plan(Last, replaced={'preset = "fuso"': 'preset = "fuso", scheduler = "last"'})
    assert traces(ours) != traces(plan())


def test_a_loss_model_takes_parameters_and_its_own_randomness():
    of = lambda fault, *uses: plan(*uses, replaced={"loss = 0.05": fault})
    listed = of(f"nth = {list(range(8, 20_000, 9))}")
    assert traces(of('model = "Every", parameters = { nth = 9 }', Every)) == traces(listed)
    chance = lambda rate: of(f'model = "Chance", parameters = {{ rate = {rate} }}', Chance)
    few, many = (sim.run(chance(rate)).runs.to_pandas().fct_p99_ms.mean() for rate in (0.0, 0.3))
    assert few < many
    assert traces(chance(0.1)) == traces(chance(0.1), jobs=1) != traces(chance(0.2))


def test_a_parameter_may_be_infinite_or_a_list():
    class Told(sim.LossModel):
        limit = 1.0
        names = ()

        def lose(self, packet):
            assert self.limit == math.inf and self.names == ["a", {"b": True}]
            return False

    fault = 'model = "Told", parameters = { limit = inf, names = ["a", { b = true }] }'
    ours = plan(Told, replaced={"loss = 0.05": fault})
    assert len(sim.run(ours)) == 2
    there = ours.as_dict()
    assert there["fault"][0]["parameters"] == {"limit": math.inf, "names": ["a", {"b": True}]}
    assert sim.Plan(there, uses=[Told]).hash == ours.hash
    endless = {}
    endless["itself"] = endless
    for wrong in (None, 1 << 64, {1: "one"}, object(), endless):
        with pytest.raises(sim.PlanError, match="a plan has texts"):
            sim.Plan(there | {"limit_s": wrong}, uses=[Told])


def test_a_scheme_mends():
    text = 'kind = "mptcp", subflows = 4 }'
    ours = plan(Neighbour, replaced={text: text + ', { kind = "Neighbour" }'})
    runs = sim.run(ours).runs.to_pandas().groupby("scheme").mean(numeric_only=True)
    assert runs.fct_p99_ms.Neighbour < runs.fct_p99_ms.mptcp
    assert runs.extra_share.Neighbour > 0.0 == runs.extra_share.mptcp


def test_a_scheme_is_told_what_happens_and_may_wait():
    seen = set()

    class Watcher(sim.Scheme):
        subflows = 2
        delay = 0.001

        def on_opportunity(self, now, paths):
            assert len(paths) == self.subflows == 2 and all(path.in_flight <= 65_536 for path in paths)
            seen.add("waited" if "opportunity" in seen else "opportunity")
            return sim.Wait(self.delay)

        def on_sent(self, now, path, packet, again):
            seen.add(("sent", again))

        def on_acked(self, now, path):
            seen.add("acked")

        def on_timeout(self, now, path):
            seen.add("timeout")

    text = 'kind = "mptcp", subflows = 4 }'
    entry = 'kind = "Watcher", parameters = { delay = 0.0005 } }'
    ours = plan(Watcher, replaced={text: entry, "loss = 0.05": "loss = 0.3"})
    assert sim.run(ours, seeds=1, jobs=1).runs.to_pandas().extra_share[0] == 0.0
    assert seen == {"opportunity", "waited", ("sent", False), ("sent", True), "acked", "timeout"}


def broken(method, value=None, error=None):
    def hook(self, *arguments):
        if error is not None:
            raise error
        return value

    kind, name = method
    return type("Broken", (kind,), {name: hook})


def of_no_packet(self, now, paths):
    """Over a path that has room, which is not the first at every opportunity."""
    return sim.Copy(0, next(path.number for path in paths if path.room), 10**6)


@pytest.mark.parametrize(
    "part, place, said",
    [
        (broken((sim.Controller, "on_ack"), error=KeyError("speed")), "congestion", "Broken.on_ack, at 0.000"),
        (broken((sim.Controller, "on_loss"), error=ValueError("no")), "congestion", "Broken.on_ack"),
        (type("Broken", (Aimd,), {"on_loss": lambda self, now, flight: setattr(self, "window", math.nan)}), "congestion", "`window` is nan"),
        (broken((sim.Scheduler, "choose"), 7), "scheduler", "it answered 7: it is the number of a path with room"),
        (broken((sim.Scheduler, "choose"), "first"), "scheduler", "it answered 'first'"),
        (broken((sim.LossModel, "lose"), "perhaps"), "model", "it answered 'perhaps': it is true or false"),
        (broken((sim.Scheme, "on_opportunity"), 1), "kind", "it answered 1: it is a Copy, a Wait or None"),
        (broken((sim.Scheme, "on_opportunity"), sim.Copy(9, 0)), "kind", "Copy(of=9, on=0): there is no such path"),
        (type("Broken", (sim.Scheme,), {"on_opportunity": of_no_packet}), "kind", "no such segment outstanding"),
        (broken((sim.Scheme, "__init__"), error=OSError("full")), "kind", "Broken.__init__"),
    ],
)
def test_a_class_that_misbehaves_ends_the_run_with_its_traceback(part, place, said):
    there = {
        "congestion": {'preset = "fuso"': 'preset = "fuso", congestion = "Broken"'},
        "scheduler": {'preset = "fuso"': 'preset = "fuso", scheduler = "Broken"'},
        "model": {"loss = 0.05": 'model = "Broken"'},
        "kind": {'kind = "mptcp", subflows = 4 }': 'kind = "Broken" }'},
    }
    if place == "kind" and part.__dict__.get("__init__"):
        part = type("Broken", (part, Neighbour), {})
    ours = plan(part, replaced=there[place])
    with pytest.raises(sim.PartError) as raised:
        sim.run(ours)
    error = raised.value
    assert said in str(error)
    assert error.hook.startswith("Broken.") and error.seconds >= 0.0
    assert error.__cause__ is not None
    if isinstance(error.__cause__, KeyError):
        told = "".join(traceback.format_exception(error))
        assert "raise error" in told and "test_parts.py" in told
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    with pytest.raises(sim.PartError):
        sim.simulate(ours)


def test_what_finished_before_is_kept(tmp_path):
    class Late(sim.LossModel):
        bad = False

        def lose(self, packet):
            if Late.bad:
                raise RuntimeError("late")
            return False

    ours = plan(Late, replaced={"loss = 0.05": 'model = "Late"'})
    sim.run(ours, seeds=1, out=tmp_path)
    Late.bad = True
    with pytest.raises(sim.PartError, match="RuntimeError: late"):
        sim.run(ours, seeds=3, out=tmp_path)
    Late.bad = False
    assert len(sim.run(ours, seeds=2, out=tmp_path)) == 2


def test_what_a_class_raises_while_versions_are_worked_out_is_told():
    ours = plan(broken((sim.LossModel, "lose"), error=ValueError("no")), replaced={"loss = 0.05": 'model = "Broken"'})
    with pytest.raises(sim.PartError, match="Broken.lose"):
        ours._native.campaign(1, None).left()


def test_progress_is_told_once_it_is_known_how_many_runs_there_are():
    class Slow(sim.LossModel):
        def lose(self, packet):
            if packet.index == 0:
                time.sleep(0.15)
            return False

    seen = []
    ours = plan(Slow, replaced={"loss = 0.05": 'model = "Slow"'})
    whole = sim.run(ours, seeds=1, progress=lambda done, runs: seen.append(runs))
    assert set(seen) == {len(whole)}


def test_rows_of_a_class_that_changed_are_not_reused():
    def of(limit):
        class Every(sim.LossModel):
            nth = limit

            def lose(self, packet):
                return packet.index % self.nth == 0

        return plan(Every, replaced={"loss = 0.05": 'model = "Every"'}).hash

    assert of(5) == of(5) != of(6)

    class Every(sim.LossModel):
        nth = 5

        def lose(self, packet):
            return packet.index % self.nth == 1

    assert plan(Every, replaced={"loss = 0.05": 'model = "Every"'}).hash != of(5)


def test_the_hash_of_a_class_is_the_same_in_every_process():
    """Else no worker of a cluster would be of the same plan: sets have an order of their own in each, objects a place."""
    picky = PLAN.replace("loss = 0.05", 'model = "Picky"')
    code = (
        "from mendpath import sim\n"
        "class Picky(sim.LossModel):\n"
        "    place, names = object(), {'x', 'y', 'z'}\n"
        "    def lose(self, packet, of=frozenset({'p', 'q', 'r'})):\n"
        "        return str(packet.index) in {'a', 'b', 'c', 'd', 'e'}\n"
        f"print(sim.Plan({picky!r}, uses=[Picky]).hash)"
    )
    told = [
        subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": str(seed)}, capture_output=True, text=True, check=True)
        for seed in range(1, 6)
    ]
    assert len({one.stdout for one in told}) == 1


def test_what_cannot_be_is_refused():
    with pytest.raises(sim.PlanError, match="`Nobody`: it must be one of .*; or of the program: Aimd"):
        plan(Aimd, replaced={'preset = "fuso"': 'preset = "fuso", congestion = "Nobody"'})
    with pytest.raises(sim.PlanError, match=r"fault\[1\].parameters.*Every has no parameter 'ntth': there are nth"):
        plan(Every, replaced={"loss = 0.05": 'model = "Every", parameters = { ntth = 2 }'})
    with pytest.raises(TypeError, match="no class made from"):
        plan(dict)
    with pytest.raises(TypeError, match="two classes of one kind are called 'Aimd'"):
        plan(Aimd, type("Aimd", (Aimd,), {}))
    with pytest.raises(ValueError, match="from a nanosecond"):
        sim.Wait(0)


def test_single_simulations_are_tables():
    single = sim.simulate(PLAN, watch=3)
    flows = single.flows.to_pandas()
    assert len(flows) == 30 and flows.completion_ms.notna().all()
    assert single.traces["mptcp"] == traces(plan())[0]
    packets = single.packets.to_pandas()
    slowest = flows.sort_values("completion_ms", ascending=False).flow.head(3)
    assert set(packets.flow) == set(slowest)
    assert {"written", "sent", "acknowledged", "finished"} <= set(packets.event)
    one = packets[packets.flow == slowest.iloc[0]]
    lasted = one[one.event == "finished"].seconds.iloc[-1] - one[one.event == "written"].seconds.iloc[0]
    assert lasted * 1e3 == pytest.approx(flows.completion_ms.max())
    assert set(one.how) <= {"", "new", "again", "copy"}
    assert sim.simulate(PLAN, watch=0).packets.num_rows == 0
    for wrong in ({"at": {"loss": 1}}, {"scheme": "tcp"}):
        with pytest.raises(sim.PlanError):
            sim.simulate(PLAN, **wrong)
