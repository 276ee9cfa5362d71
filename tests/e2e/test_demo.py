"""`make demo`, as it is run where nobody watches."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from services.demo import story

ROOT = Path(__file__).resolve().parents[2]


def test_every_step_is_told_in_order_and_the_exit_code_is_zero() -> None:
    told = subprocess.run(
        [sys.executable, "-m", "services.demo"], cwd=ROOT, capture_output=True, text=True, timeout=170, check=False
    )
    assert told.returncode == 0, told.stdout + told.stderr
    held = [line.split("ok   ")[1].split(":")[0] for line in told.stdout.splitlines() if "ok   " in line]
    assert held == ["start", *(step.name for step in story.STEPS)]
