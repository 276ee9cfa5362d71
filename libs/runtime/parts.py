"""The parts of a process: tasks that run side by side for ever, and end together."""

import asyncio
from collections.abc import Awaitable, Callable


class PartEndedError(Exception):
    """A part that should run for ever has returned."""


async def run_until_stopped(**parts: Callable[[], Awaitable[None]]) -> None:
    """Run every part side by side until cancelled; the first that raises or returns cancels the rest.

    What it raised is raised from here, with a note that names the part.
    """
    try:
        async with asyncio.TaskGroup() as group:
            for name, part in parts.items():
                group.create_task(_forever(name, part), name=name)
    except BaseExceptionGroup as failures:
        if len(failures.exceptions) == 1:
            raise failures.exceptions[0] from failures.exceptions[0].__cause__
        raise


async def _forever(name: str, part: Callable[[], Awaitable[None]]) -> None:
    try:
        await part()
    except Exception as error:
        error.add_note(f"raised by the part {name!r}")
        raise
    raise PartEndedError(f"the part {name!r} has returned, and should run for ever")
