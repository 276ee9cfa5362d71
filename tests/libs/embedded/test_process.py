"""A child process: it is watched, stopped in time, killed if it must be, and never outlives us."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from libs.embedded.process import Process, ProcessError

ROOT = Path(__file__).resolve().parents[3]
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
POLITE = "print('up', flush=True); import time; time.sleep(60)"


def python(code: str, tmp_path: Path, environ: dict[str, str] | None = None) -> Process:
    return Process("child", [sys.executable, "-c", code], log_file=tmp_path / "logs" / "child.log", environ=environ)


def up(process: Process) -> None:
    process.wait_until(lambda: "up" in process.log_text(), what="is up", seconds=20)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_starts_once_and_stops_on_sigterm(tmp_path: Path) -> None:
    child = python(POLITE, tmp_path)
    assert not child.is_running
    child.start()
    up(child)
    assert is_alive(child.pid)
    with pytest.raises(ProcessError, match="running already"):
        child.start()
    assert child.stop() == -signal.SIGTERM
    assert not child.is_running
    assert child.stop() == -signal.SIGTERM
    with pytest.raises(ProcessError, match="not running"):
        _ = child.pid


def test_one_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    child = python(DEAF, tmp_path)
    child.start()
    up(child)
    before = time.monotonic()
    assert child.stop(0.3) == -signal.SIGKILL
    assert time.monotonic() - before < 10


def test_an_early_end_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    child = python("import sys; print('no such thing as a range'); sys.exit(2)", tmp_path)
    child.start()
    with pytest.raises(ProcessError, match=r"(?s)child ended with 2 before is up.*no such thing as a range"):
        child.wait_until(lambda: False, what="is up", seconds=20)


def test_what_does_not_come_is_told_in_time(tmp_path: Path) -> None:
    child = python(POLITE, tmp_path)
    child.start()
    with pytest.raises(ProcessError, match=r"not within 0.1 s: flies"):
        child.wait_until(lambda: False, what="flies", seconds=0.1)
    child.kill()


def test_each_run_has_its_own_part_of_the_log(tmp_path: Path) -> None:
    child = python("import os; print('run', os.environ['RUN'])", tmp_path, environ={"RUN": "one"})
    child.start()
    child.wait(20)
    again = python("print('run two')", tmp_path)
    again.start()
    again.wait(20)
    assert again.log_text() == "run two\n"
    assert child.log_file.read_text() == "run one\nrun two\n"


def test_the_thread_that_starts_a_child_may_end(tmp_path: Path) -> None:
    child = python(POLITE, tmp_path)
    starter = threading.Thread(target=child.start)
    starter.start()
    starter.join()
    up(child)
    with pytest.raises(ProcessError):
        child.wait(0.3)
    child.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="the death signal is Linux's")
def test_children_end_with_their_parent_even_when_it_is_killed(tmp_path: Path) -> None:
    parent = textwrap.dedent(f"""
        import sys, time
        from pathlib import Path
        from libs.embedded.process import Process
        child = Process("child", [sys.executable, "-c", {DEAF!r}], log_file=Path({str(tmp_path)!r}) / "log")
        child.start()
        child.wait_until(lambda: "up" in child.log_text(), what="is up", seconds=20)
        print(child.pid, flush=True)
        time.sleep(60)
    """)
    with subprocess.Popen([sys.executable, "-c", parent], cwd=ROOT, stdout=subprocess.PIPE, env=os.environ) as running:
        assert running.stdout is not None
        pid = int(running.stdout.readline())
        assert is_alive(pid)
        running.kill()
    deadline = time.monotonic() + 5
    while is_alive(pid):
        assert time.monotonic() < deadline, "the child outlived its parent"
        time.sleep(0.01)
