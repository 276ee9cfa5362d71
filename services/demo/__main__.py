"""`make demo`: tell the story, exit 0 only when every step was seen to hold."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import tempfile
import time
from pathlib import Path

from libs import runtime
from libs.embedded.process import ProcessError
from services.demo import screen, stage, story


def main() -> int:
    """Parse the arguments, play, and turn the end into an exit code: 0 held, 1 not, 130 interrupted."""
    parser = argparse.ArgumentParser(prog="make demo", description="Watch nodes move and be followed.")
    parser.add_argument("--keep", action="store_true", help="leave everything running afterwards, until Ctrl-C")
    arguments = parser.parse_args()
    runtime.set_up_logs(log_format="text", log_level="error")  # the screen tells; the parts log into files
    with tempfile.TemporaryDirectory(prefix="nodetrail-demo-") as folder:
        try:
            return asyncio.run(play(Path(folder), keep=arguments.keep))
        except KeyboardInterrupt:
            print("interrupted; everything was stopped", file=sys.stderr)  # noqa: T201
            return 130


async def play(folder: Path, *, keep: bool) -> int:
    """Play every step in order; the first that does not hold ends the demo and is named."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, signal.raise_signal, signal.SIGINT)
    shown = screen.choose(story.STEPS)
    started = time.monotonic()
    with shown:
        shown.begin("start", "nats-server, Kubernetes API, three boxes, all services")
        try:
            async with stage.stage(folder, shown.machines) as on_stage:
                shown.held("every part runs as a process of its own and is ready")
                told = story.Told()
                for step in story.STEPS:
                    await asyncio.sleep(shown.pause_seconds)
                    shown.begin(step.name, step.shows)
                    shown.held(await step.run(on_stage, told))
                seconds = time.monotonic() - started
                shown.say(f"Every step was seen to hold, in {seconds:.0f} s.")
                if keep:
                    shown.say(around(on_stage))
                    await asyncio.Event().wait()
        except (story.NotSeenError, ProcessError) as error:
            shown.failed(str(error))
            return 1
    return 0


def around(on_stage: stage.Stage) -> str:
    """How to look around in what was left running."""
    assert on_stage.stack.nats is not None  # noqa: S101 - the stage made it
    lines = [
        "It is left running; Ctrl-C stops it. In another terminal:",
        f"  export KUBECONFIG={on_stage.stack.kubeconfigs['kubectl']}",
        f"  kubectl get tm -n {stage.NAMESPACE}",
        f"  nats --server {on_stage.stack.nats.url} sub 'nodetrail.>'",
        f"  logs: {on_stage.stack.folder / 'logs'}",
        *(f"  curl {url}/readyz   # {name}" for name, url in on_stage.urls.items()),
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
