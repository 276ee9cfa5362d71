"""Which machine an observation is about, by what is known without a live read."""

from __future__ import annotations

from datetime import datetime

import msgspec

from libs import rules
from libs.events import EndpointObserved
from libs.identity import compare_uuids, normalise_uuid
from libs.machine import Source
from services.status_writer.directory import Directory, Key, Known
from services.status_writer.news import News
from services.status_writer.sightings import Box, Sightings


class Meant(msgspec.Struct, frozen=True, kw_only=True):
    """One machine, or what else it could be about, or nobody."""

    key: Key | None = None
    uid: str = ""
    """If not blank, only the machine with this UID is meant, not a namesake."""
    rivals: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    shown_by_others: frozenset[str] = frozenset()


class Resolver:
    """Finds who is meant. The answer for a box is kept until machines or boxes come or go."""

    def __init__(self, directory: Directory, sightings: Sightings) -> None:
        self._directory = directory
        self._sightings = sightings
        self._kept: dict[Box, tuple[int, int, Meant]] = {}

    def box(self, box: Box) -> Meant:
        """Return who a box is, from memory if nothing has changed that could matter."""
        kept = self._kept.get(box)
        machines, boxes = self._directory.identities.version, self._sightings.version
        if kept is not None and kept[0] == machines and kept[1] == boxes:
            return kept[2]
        meant = self.box_now(box, max(picture.observed_at for picture in box.pictures.values()))
        if len(self._kept) > 2 * len(self._sightings) + 1000:
            self._kept.clear()  # boxes that went
        self._kept[box] = (machines, boxes, meant)
        return meant

    def box_now(self, box: Box, now: datetime) -> Meant:
        """Return who a box is, with regard to which others are alive now."""
        others = self._sightings.shown_by_others(box, now)
        found = self._directory.identities.find(box.identity, shared=self._sightings.shared, shown_by_others=others)
        hints = tuple(sorted(f"{'/'.join(key)} ({why})" for key, why in found.weak.items()))
        if found.only is not None:
            return Meant(key=found.only, hints=hints, shown_by_others=others)
        rivals = sorted(f"{'/'.join(key)} ({why})" for key, why in (found.matching | found.conflicting).items())
        return Meant(rivals=tuple(rivals), hints=hints, shown_by_others=others)

    def others(self, news: News) -> Meant:
        """Return who a Node, a lookup or a read is about."""
        machine = news.observed.machine
        if news.source is not Source.NODE and machine is not None:
            # Without a UID it cannot be told from a deleted namesake's: no object has such a one.
            return Meant(key=(machine.namespace, machine.name), uid=machine.uid or "none")
        return self._node(news.observed)

    def _node(self, observed: EndpointObserved) -> Meant:
        node = observed.node
        if node is None:
            return Meant()
        named = self._directory.named(node.name)
        fitting = [known for known in named if not _contradicts(known, node.system_uuid)]
        if len(fitting) == 1:
            return Meant(key=fitting[0].machine.key)
        if named:
            rivals = [known.name for known in fitting] or [f"{known.name} (another systemUUID)" for known in named]
            return Meant(rivals=tuple(rivals))
        token = f"uuid:{normalise_uuid(node.system_uuid)}"
        by_uuid = sorted("/".join(key) for key in self._directory.identities.holders(token))
        return Meant(hints=tuple(by_uuid[:8]))


def changes_nothing(known: Known, news: News) -> bool:
    """Whether a machine, as it is known, is dialled where it was seen, and nothing is left to be said of it."""
    status = known.machine.status
    if status.observed_at == news.made_at or not known.dials:
        return False  # perhaps recorded and never told; or dialled by a name
    if news.source in {Source.NODE, Source.LOOKUP} and not (
        rules.names_node(known.machine, news.observed)
        and news.observed.node is not None
        and not _contradicts(known, news.observed.node.system_uuid)
    ):
        return False
    return rules.lists_dial_endpoint(known.dials, known.port, news.source, news.observed)


def _contradicts(known: Known, system_uuid: str) -> bool:
    return compare_uuids(known.machine.spec.identity.uuid, system_uuid) is False
