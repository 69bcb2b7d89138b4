"""What the runner costs beside the simulation, and a million rows. Needs a release build of the package with ``[test]``.

    python python/bench/runner.py [--runs 1000000] [--folder FOLDER]

- ``start``: a process that imports the package and prepares a plan, as a worker of a sweep does.
- ``run``: a plan whose simulation is one packet and its acknowledgement: what is left is the runner's.
- ``parquet``: its rows as Parquet, partitioned by scheme and by parts of the seeds.
- ``polars``: means by scheme and point over all of them, read lazily.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PLAN = """
title = "One packet"
metrics = ["fct_mean_ms", "fct_p99_ms", "timeout_share"]
seeds = 1
topology = { kind = "dumbbell", rate_mbps = "$rate" }
workload = { kind = "spaced", from = "left", to = "right", flows = 1, apart_ms = 1, bytes = 1_000 }
scheme = [{ kind = "tcp" }, { kind = "fuso", subflows = 2 }]
sweep = { rate = [10, 100, 1_000, 10_000, 100_000] }
"""
START = "import sys; from mendpath import sim, _sweep; sim.Plan(sys.argv[1])._native.campaign(1, None).run_these([0])"
POINTS = 10


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--runs", type=int, default=1_000_000)
    arguments.add_argument("--folder", help="where the Parquet files stay; by default they do not")
    options = arguments.parse_args()

    import polars
    import pyarrow.compute
    import pyarrow.dataset

    from mendpath import sim

    starts = []
    for _ in range(5):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", START, PLAN], check=True)
        starts.append(time.perf_counter() - began)
    print(f"start    {sorted(starts)[2]:8.2f} s", flush=True)

    seeds = max(1, options.runs // POINTS)
    began = time.perf_counter()
    results = sim.run(PLAN, seeds=seeds, jobs=1, progress=False)
    took = time.perf_counter() - began
    print(f"run      {took / len(results) * 1e3:8.4f} ms each, {len(results):,} runs in {took:.1f} s", flush=True)

    with tempfile.TemporaryDirectory() as aside:
        folder = Path(options.folder or aside)
        began = time.perf_counter()
        runs = results.runs
        part = pyarrow.compute.divide(runs["seed"], max(1, seeds // 8))
        runs = runs.append_column("part", part)
        schema = pyarrow.schema([runs.schema.field("scheme"), runs.schema.field("part")])
        partitions = pyarrow.dataset.partitioning(schema, flavor="hive")
        pyarrow.dataset.write_dataset(
            runs, folder, format="parquet", partitioning=partitions, existing_data_behavior="delete_matching"
        )
        files = list(folder.rglob("*.parquet"))
        size = sum(file.stat().st_size for file in files)
        took = time.perf_counter() - began
        print(f"parquet  {took:8.2f} s, {len(files)} files, {size / 1e6:.0f} MB", flush=True)

        began = time.perf_counter()
        rows = polars.scan_parquet(folder / "**/*.parquet", hive_partitioning=True)
        means = rows.group_by("scheme", "rate").agg(polars.col("fct_mean_ms").mean()).collect()
        print(f"polars   {time.perf_counter() - began:8.2f} s, {len(means)} groups")


if __name__ == "__main__":
    main()
