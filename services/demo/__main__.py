"""`make demo`: tell the story, exit 0 only when every step was seen to hold."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Coroutine
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
    # A script's background job ignores Ctrl-C, and still has to end when it is told to.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = Path(tempfile.mkdtemp(prefix="nodetrail-demo-"))
    try:
        code = asyncio.run(play(folder, keep=arguments.keep))
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("interrupted; everything was stopped", file=sys.stderr)  # noqa: T201
        code = 130
    if code == 1:
        print(f"Everything was stopped. The logs are in {folder / 'logs'}", file=sys.stderr)  # noqa: T201
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return code


async def play(folder: Path, *, keep: bool) -> int:
    """Play every step in order; the first that does not hold ends the demo and is named."""
    shown = screen.choose(story.STEPS)
    started = time.monotonic()
    with shown:
        shown.begin("start", "nats-server, Kubernetes API, three boxes, all services")
        try:
            async with stage.stage(folder, shown.machines) as on_stage:
                shown.held("every part runs as a process of its own and is ready")
                await _unless_a_part_ends(on_stage, _tell(on_stage, shown))
                shown.say(f"Every step was seen to hold, in {time.monotonic() - started:.0f} s.")
                if keep:
                    shown.say(around(on_stage))
                    await on_stage.until_a_part_ends()
        except (story.NotSeenError, ProcessError) as error:
            shown.failed(str(error))
            return 1
    return 0


async def _tell(on_stage: stage.Stage, shown: screen.Screen) -> None:
    told = story.Told()
    for step in story.STEPS:
        await asyncio.sleep(shown.pause_seconds)
        shown.begin(step.name, step.shows)
        shown.held(await step.run(on_stage, told))


async def _unless_a_part_ends(on_stage: stage.Stage, telling: Coroutine[None, None, None]) -> None:
    """Tell the story, and break off with the cause when one of its parts has ended."""
    story_told = asyncio.ensure_future(telling)
    part_ends = asyncio.ensure_future(on_stage.until_a_part_ends())
    try:
        await asyncio.wait({story_told, part_ends}, return_when=asyncio.FIRST_COMPLETED)
        for task in (story_told, part_ends):
            if task.done():
                task.result()
                return
    finally:
        for task in (story_told, part_ends):
            task.cancel()
        await asyncio.gather(story_told, part_ends, return_exceptions=True)


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
