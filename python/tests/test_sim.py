import json
import os
import shutil
import subprocess
import sys
import threading

import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest

from mendpath import sim

PLAN = """
title = "TCP and FUSO beside each other"
metrics = ["fct_p99_ms", "timeout_share"]
seeds = 2
distributions = true
topology = { kind = "parallel-paths" }
tcp = { preset = "fuso" }
fault = [{ links = "paths", index = 0, loss = "$loss" }]
workload = { kind = "spaced", from = "first", to = "second", flows = 20, apart_ms = 50, bytes = 20_000 }
scheme = [{ kind = "tcp" }, { kind = "fuso", subflows = 4 }]
sweep = { loss = [0, 0.05] }
figure = [{ file = "p99", panel = [{ heading = "p99", metric = "fct_p99_ms", x = "loss", x_title = "loss", y_title = "ms" }] }]
"""
SAME = {
    "title": "TCP and FUSO beside each other",
    "metrics": ["fct_p99_ms", "timeout_share"],
    "seeds": 2,
    "distributions": True,
    "topology": {"kind": "parallel-paths"},
    "tcp": {"preset": "fuso"},
    "fault": [{"links": "paths", "index": 0, "loss": "$loss"}],
    "workload": {"kind": "spaced", "from": "first", "to": "second", "flows": 20, "apart_ms": 50, "bytes": 20_000},
    "scheme": [{"kind": "tcp"}, {"kind": "fuso", "subflows": 4}],
    "sweep": {"loss": [0, 0.05]},
}

# A run that takes an hour.
ENDLESS = {
    **SAME,
    "sweep": {},
    "fault": [],
    "scheme": [{"kind": "tcp"}],
    "distributions": False,
    "workload": {"kind": "spaced", "from": "first", "to": "second", "flows": 1, "apart_ms": 1, "bytes": 10**12},
}


def test_rows_are_tables_of_arrow_pandas_and_polars():
    results = sim.run(PLAN)
    assert len(results) == 8 == results.plan.runs
    runs = results.runs
    assert isinstance(runs, pyarrow.Table)
    assert runs.column_names[:5] == ["plan", "plan_hash", "version", "scheme", "loss"]
    frame = runs.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    lossy = frame[frame.loss == 0.05].groupby("scheme").fct_p99_ms.mean()
    assert lossy.iloc[0] != lossy.iloc[1]
    assert polars.from_arrow(results.summary).height == 2 * 2 * 2
    assert set(results.distributions.column("share").to_pylist()) >= {1.0}


def test_a_plan_is_a_dictionary_to_be_changed():
    plan = sim.Plan(PLAN)
    there = plan.as_dict()
    assert there["sweep"] == {"loss": [0, 0.05]} and sim.Plan(there).hash == plan.hash
    there["sweep"]["loss"] = [0.1]
    assert sim.Plan(there, name="mine").runs == 4


def test_a_dictionary_is_the_same_plan():
    plan = sim.Plan(SAME)
    assert (plan.schemes, plan.axes, plan.scale) == (["tcp", "fuso"], ["loss"], "quick")
    traces = lambda source: sim.run(source, jobs=1).runs.column("trace").to_pylist()
    assert traces(plan) == traces(PLAN)


def test_the_command_has_the_same_rows(tmp_path):
    (tmp_path / "mine").mkdir()
    file = tmp_path / "mine" / "plan.toml"
    file.write_text(PLAN)
    program = shutil.which("mendpath")
    out = subprocess.run(
        [program, "experiment", "run", str(file), "--out", str(tmp_path / "out"), "--json"],
        check=True, capture_output=True, text=True,
    )
    cells = json.loads(out.stdout)
    theirs = pyarrow.parquet.read_table(next((tmp_path / "out").rglob("runs.parquet")))
    assert cells and sim.run(file).runs.equals(theirs)


def test_mistakes_name_file_line_key_and_what_may_stand_there(tmp_path):
    file = tmp_path / "plan.toml"
    file.write_text(PLAN.replace('kind = "fuso"', 'kind = "fusi"'))
    with pytest.raises(sim.PlanError, match="plan.toml:.*fusi.*fuso") as caught:
        sim.Plan(file)
    assert caught.value.line == 1 + PLAN.splitlines().index(next(l for l in PLAN.splitlines() if l.startswith("scheme")))
    with pytest.raises(sim.PlanError, match="`titel`.*title"):
        sim.Plan({**SAME, "titel": "x"})
    with pytest.raises(sim.PlanError, match="quick"):
        sim.Plan(PLAN, scale="huge")
    with pytest.raises(sim.PlanError, match="cannot be read"):
        sim.Plan(tmp_path / "none.toml")
    with pytest.raises(ValueError, match="jobs"):
        sim.run(PLAN, jobs=0)
    with pytest.raises(KeyError, match="p98.*p99"):
        sim.run(PLAN, seeds=1).figure("p98")


def test_an_interrupt_keeps_finished_rows_and_the_next_run_goes_on(tmp_path):
    def enough(done, runs):
        if done >= 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        sim.run(PLAN, seeds=2_000, jobs=1, out=tmp_path, progress=enough)
    finished = caught.value.results
    assert 1 <= len(finished) < 8_000
    seen = []
    whole = sim.run(PLAN, out=tmp_path, progress=lambda done, runs: seen.append(done))
    assert len(whole) == 8
    assert whole.runs.equals(sim.run(PLAN).runs)


def test_an_interrupt_ends_a_run_in_its_midst(tmp_path):
    """Both runs are under way when it comes; each would take an hour."""
    asked = []

    def enough(done, runs):
        asked.append(done)
        if len(asked) >= 3:
            raise KeyboardInterrupt

    with pytest.raises(sim.Interrupted) as caught:
        sim.run(ENDLESS, seeds=2, jobs=2, progress=enough)
    assert len(caught.value.results) == 0 and set(asked) == {0}
    # The plan is as good as new.
    plan = sim.Plan(PLAN)
    with pytest.raises(LookupError):
        sim.run(plan, seeds=2_000, progress=lambda done, runs: {}[done])
    assert len(sim.run(plan)) == 8


def test_an_interrupt_ends_a_single_simulation_and_an_estimate():
    code = (
        "import json, os, signal, sys, threading, mendpath\n"
        "from mendpath import sim\n"
        "plan = sim.Plan(json.loads(sys.argv[1]))\n"
        "for work in (sim.simulate, mendpath.estimate):\n"
        "    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "    try:\n"
        "        work(plan)\n"
        "    except KeyboardInterrupt:\n"
        "        print('interrupted', flush=True)\n"
    )
    command = [sys.executable, "-c", code, json.dumps(ENDLESS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.stdout == "interrupted\n" * 2, done.stderr


def test_what_a_progress_function_raises_comes_back():
    def broken(done, runs):
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        sim.run(PLAN, seeds=2_000, progress=broken)


def test_other_threads_go_on():
    counted, stop = [0], threading.Event()

    def count():
        while not stop.is_set():
            counted[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    before = counted[0]
    sim.run(PLAN, seeds=20, jobs=1)
    during = counted[0] - before
    stop.set()
    thread.join()
    assert during > 0


def test_shards_together_are_the_whole():
    plan = sim.Plan(PLAN)
    parts = [sim.run(plan, shard=f"{n}/3") for n in (1, 2, 3)]
    together = sim.merge(plan, parts).runs.sort_by([("scheme", "ascending"), ("loss", "ascending"), ("seed", "ascending")])
    whole = sim.run(plan).runs.sort_by([("scheme", "ascending"), ("loss", "ascending"), ("seed", "ascending")])
    assert together.equals(whole)
    other = sim.run(PLAN.replace("20_000", "30_000"), seeds=1)
    with pytest.raises(sim.PlanError, match="another plan"):
        sim.merge(plan, [other])


def test_what_several_parts_have_counts_once():
    plan = sim.Plan(PLAN)
    whole, first = sim.run(plan, seeds=3), sim.run(plan, seeds=3, shard="1/2")
    together = sim.merge(plan, [whole, first])
    assert together.runs.equals(whole.runs)
    assert together.summary.equals(whole.summary)
    assert repr(together) == repr(whole)
    row = json.loads(first._native.rows()[0])
    row["hops"] += 1
    with pytest.raises(ValueError, match="different rows of tcp with seed 1"):
        plan._native.results(first._native.rows() + [json.dumps(row)], 3)


def test_figures_are_shown_and_saved(tmp_path):
    figure = sim.run(PLAN, seeds=1).figure()
    assert figure._repr_svg_().startswith("<svg")
    figure.save(tmp_path / "p99.svg")
    assert (tmp_path / "p99.svg").stat().st_size > 1_000


def test_progress_goes_to_terminals_alone(capfd):
    sim.run(PLAN, seeds=1)
    assert capfd.readouterr() == ("", "")
    sim.run(PLAN, seeds=1, progress=True)
    assert "4/4" in capfd.readouterr().err


@pytest.mark.parametrize("folder", ["plans"])
def test_every_plan_of_the_repository_can_be_read(folder):
    root = os.path.join(os.path.dirname(__file__), "..", "..", folder)
    if not os.path.isdir(root):
        pytest.skip("not beside the repository")
    for name in sorted(os.listdir(root)):
        if os.path.exists(os.path.join(root, name, "plan.toml")):
            plan = sim.Plan(os.path.join(root, name))
            assert plan.name == name and plan.title


def test_an_estimate_counts_what_is_left(tmp_path):
    import mendpath

    whole = mendpath.estimate(PLAN, out=tmp_path, seeds=10)
    assert whole.runs == 40 and whole.tasks >= 1
    assert whole.hops_per_run > 0 and whole.hops_per_second > 0
    assert whole.seconds(2) == whole.processor_seconds / 2
    sim.run(PLAN, out=tmp_path, seeds=8)
    assert mendpath.estimate(PLAN, out=tmp_path, seeds=10).runs == 8
    # It takes hops from all over the plan: with as many samples as runs, exactly theirs.
    hops = sum(sim.run(PLAN).runs["hops"].to_pylist())
    assert mendpath.estimate(PLAN, samples=100).hops_per_run == hops / 8
    assert mendpath.estimate(PLAN, out=tmp_path, seeds=8) == type(whole)(0, 0.0, 0.0, 0.0, 0)
    with pytest.raises(ValueError):
        mendpath.estimate(PLAN, samples=0)
    with pytest.raises(sim.PlanError, match="too many"):
        mendpath.estimate(PLAN.replace("[0, 0.05]", "[0, 0.01, 0.02, 0.03, 0.04, 0.05]"), seeds=1_000_000)
