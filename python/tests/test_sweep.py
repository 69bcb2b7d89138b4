import signal
import subprocess
import sys

import pytest

import mendpath
from mendpath import sim

from test_sim import PLAN

ray = pytest.importorskip("ray")
cluster_utils = pytest.importorskip("ray.cluster_utils")


@pytest.fixture
def cluster():
    """Two machines, as far as Ray can tell, beside a head that does no work."""
    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    cluster.wait_for_nodes()
    yield cluster, nodes
    ray.shutdown()
    cluster.shutdown()


def test_rows_of_a_cluster_are_those_of_one_process(cluster, tmp_path):
    ray.init(address=cluster[0].address, log_to_driver=False)
    seen = []
    results = mendpath.sweep(PLAN, out=tmp_path, progress=lambda done, runs: seen.append((done, runs)))
    assert results.runs.equals(sim.run(PLAN, jobs=1).runs)
    assert seen[-1] == (8, 8)


def test_a_machine_that_dies_costs_its_tasks_only(cluster, tmp_path):
    ray.init(address=cluster[0].address, log_to_driver=False)
    killed = []

    def kill(done, runs):
        if done >= 5 and not killed:
            killed.append(cluster[1][0])
            cluster[0].remove_node(cluster[1][0], allow_graceful=False)

    results = mendpath.sweep(PLAN, seeds=40, out=tmp_path, progress=kill)
    assert killed and results.runs.equals(sim.run(PLAN, seeds=40, jobs=1).runs)


def test_a_driver_that_is_killed_goes_on_where_it_was(cluster, tmp_path):
    address = cluster[0].address
    code = (
        "import os, signal, sys, ray, mendpath; ray.init(address=sys.argv[1], log_to_driver=False)\n"
        "kill = lambda done, runs: done >= 3 and os.kill(os.getpid(), signal.SIGKILL)\n"
        "mendpath.sweep(open(sys.argv[2]).read(), out=sys.argv[3], seeds=40, progress=kill)"
    )
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    out = tmp_path / "out"
    died = subprocess.run([sys.executable, "-c", code, address, str(plan), str(out)], capture_output=True)
    assert died.returncode == -signal.SIGKILL
    kept = sum(len(file.read_bytes().splitlines()) for file in out.iterdir())
    assert kept >= 3
    ray.init(address=address, log_to_driver=False)
    first = []
    results = mendpath.sweep(PLAN, seeds=40, out=out, progress=lambda done, runs: first.append(done))
    assert first[0] >= kept
    assert results.runs.equals(sim.run(PLAN, seeds=40, jobs=1).runs)


def test_a_worker_of_another_version_is_named(cluster, tmp_path, monkeypatch):
    ray.init(address=cluster[0].address, log_to_driver=False)
    monkeypatch.setattr("mendpath._sweep.__version__", "9.9.9")
    with pytest.raises(Exception, match="a worker has mendpath .*, the driver 9.9.9"):
        mendpath.sweep(PLAN, out=tmp_path)


def test_classes_travel_with_the_plan(cluster, tmp_path):
    ray.init(address=cluster[0].address, log_to_driver=False)

    class Every(sim.LossModel):
        nth = 6

        def lose(self, packet):
            return packet.index % self.nth == 0

    plan = sim.Plan(PLAN.replace('loss = "$loss"', 'model = "Every", parameters = { nth = "$nth" }').replace("loss = [0, 0.05]", "nth = [5, 9]").replace('x = "loss"', 'x = "nth"'), uses=[Every])
    assert mendpath.sweep(plan, out=tmp_path).runs.equals(sim.run(plan, jobs=1).runs)

    class Broken(sim.LossModel):
        def lose(self, packet):
            raise ValueError("on purpose")

    broken = sim.Plan(plan.as_dict() | {"fault": [{"links": "paths", "model": "Broken"}], "sweep": {}, "figure": []}, uses=[Broken])
    with pytest.raises(sim.PartError, match="Broken.lose, at .*on purpose"):
        mendpath.sweep(broken, out=tmp_path / "broken")
