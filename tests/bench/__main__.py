"""`make bench`: the design's numbers as ratios within one run; prints a table and writes build/bench.json."""

from __future__ import annotations

import asyncio
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from tests.bench import follow, sweep, writer
from tests.bench.row import Row, plain
from tests.e2e.site import Secrets
from tests.peers import build, cluster
from tests.peers.kube_api import KubeApi
from tests.peers.tools import Tool

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Measure every row; 1 when one has missed its target."""
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="nodetrail-bench-") as name, console.status("measuring") as status:
        folder = Path(name)
        status.update("the sweep, beside nmap")
        rows.append(sweep.measure())
        status.update("the demo, from start to end")
        rows.append(_demo())
        peers = build.find()
        api = KubeApi(peers, folder / "kube")
        try:
            api.start()
            cluster.deploy(api, peers.kubectl)
            status.update("the status writer")
            rows += asyncio.run(writer.measure(folder / "writer", api.kubeconfigs))
            api.wipe()
            status.update("moves")
            rows.append(asyncio.run(follow.measure(folder / "follow", api.kubeconfigs, _secrets(peers, folder))))
        finally:
            api.stop()
    console.print(_table(rows))
    (ROOT / "build").mkdir(exist_ok=True)
    machine = {"processors": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()}
    (ROOT / "build" / "bench.json").write_bytes(
        msgspec.json.format(msgspec.json.encode({"machine": machine, "rows": rows}))
    )
    return 1 if any(row.met is False for row in rows) else 0


def _demo() -> Row:
    seconds = []
    for _ in range(2):
        begun = time.monotonic()
        subprocess.run([sys.executable, "-m", "services.demo"], cwd=ROOT, check=True, capture_output=True, timeout=120)
        seconds.append(time.monotonic() - begun)
    return plain("make demo, start to end", seconds, unit="s", target=60.0)


def _secrets(peers: build.Peers, folder: Path) -> Secrets:
    talosctl = Tool(peers.talosctl, home=folder / "talosctl")
    talosctl("gen", "config", "bench", "https://bench.example:6443", "--output", str(folder / "cluster"))
    made = folder / "cluster"
    return Secrets((made / "controlplane.yaml").read_text(), (made / "talosconfig").read_text())


def _table(rows: list[Row]) -> Table:
    table = Table("what", "value", "floor or peer", "ratio (min, median, max)", "target", "met")
    for row in rows:
        floor = f"{row.floor:,.3g} {row.unit} ({row.floor_is})" if row.floor is not None else ""
        ratio = f"{row.ratios[0]:.2f}  {row.ratio:.2f}  {row.ratios[-1]:.2f}" if row.ratio is not None else ""
        met = "" if row.met is None else "yes" if row.met else "NO"
        table.add_row(row.name, f"{row.value:,.3g} {row.unit}", floor, ratio, row.target, met)
    return table


if __name__ == "__main__":
    sys.exit(main())
