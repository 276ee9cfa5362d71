"""The whole API without HTTP: a request is understood, allowed and done; what comes back is bytes or lines.

The API server itself writes the namespaces and roles that every cluster begins with.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import msgspec

from services.devapi import bodies, builtin, discovery, openapi, protobuf, refusal, tables
from services.devapi.admission import Admission
from services.devapi.calls import Call
from services.devapi.kinds import Kind, Kinds
from services.devapi.rbac import Act, Rbac, refused_because
from services.devapi.reads import Page, Reads
from services.devapi.reviews import Reviews
from services.devapi.ring import Entry
from services.devapi.routes import Target, target_of
from services.devapi.special import Special
from services.devapi.store import Store
from services.devapi.users import OPERATOR, User, Users
from services.devapi.writes import APPLY, NAMESPACES, Writes

Item = dict[str, Any]
_TRUE = {"true", "1"}


@dataclass(frozen=True, kw_only=True)
class Request:
    """An HTTP request as far as it matters here."""

    method: str
    path: str
    options: Mapping[str, str] = field(default_factory=dict)
    authorization: str = ""
    agent: str = ""
    accept: str = ""
    content_type: str = ""
    body: bytes = b""

    @property
    def media(self) -> str:
        """The body's media type without its parameters."""
        return self.content_type.partition(";")[0].strip() or "application/json"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A whole answer (`data`), or one that goes on (`lines`)."""

    code: int = 200
    data: bytes = b""
    lines: AsyncIterator[bytes] | None = None
    warnings: tuple[str, ...] = ()
    verb: str = ""


class Server:
    """All parts together."""

    def __init__(self, users: Users, *, history: int) -> None:
        """Keep the last `history` changes of every kind for watches."""
        self.store = Store(history=history)
        self.kinds = Kinds(builtin.KINDS)
        self._users = users
        self._rbac = Rbac(self.store)
        admission = Admission()
        special = Special(self.store, self.kinds, admission, self._rbac)
        self.writes = Writes(self.store, special, admission, self._rbac)
        self.reads = Reads(self.store)
        self._reviews = Reviews(users, self._rbac)
        for manifest in BEGINNING:
            self.put(manifest)

    def put(self, manifest: Item) -> None:
        """Apply a manifest on behalf of whoever started the server; `Refusal` when it cannot be had."""
        kind = self.kinds.of(manifest.get("apiVersion", ""), manifest.get("kind", ""))
        if kind is None:
            what = f"{manifest.get('apiVersion')} {manifest.get('kind')}"
            raise refusal.bad_request(f"{what} is no kind that is known here")
        metadata = manifest.get("metadata") or {}
        call = Call(
            verb="patch",
            kind=kind,
            user=OPERATOR,
            namespace=metadata.get("namespace", "default") if kind.namespaced else "",
            name=metadata.get("name", ""),
            options={"fieldManager": "nodetrail-devapi", "force": "true"},
        )
        self.writes.apply(call, manifest, lambda _: None)

    def answer(self, request: Request) -> Answer:
        """Do what a request asks; raises `Refusal`."""
        user = self._users.of(request.authorization)
        if user is None:
            raise refusal.unauthorized()
        watching = request.options.get("watch") in _TRUE
        target = target_of(request.method, request.path, watching=watching)
        if target is None:
            return self._document(request, user)
        act = Act(target.verb, target.group, target.resource, target.namespace, target.name)
        if not self._rbac.allows(user, act):
            raise refusal.forbidden(target.plural, target.group, target.name, refused_because(user, act))
        review = discovery.REVIEWS.get((target.group, target.version, target.plural))
        if review is not None and target.verb == "create":
            api_version = f"{target.group}/{target.version}"
            item = self._reviews.answer(review, api_version, user, _object(request))
            return Answer(code=201, data=msgspec.json.encode(item), verb=target.verb)
        return self._act(request, user, target)

    def _document(self, request: Request, user: User) -> Answer:
        """Answer with a document about the API."""
        path = "/" + request.path.strip("/")
        if not self._rbac.allows_path(user, request.method.lower(), path):
            why = f'User "{user.name}" cannot {request.method.lower()} path "{path}"'
            raise refusal.Refusal(403, "Forbidden", f"forbidden: {why}")
        if request.method not in {"GET", "HEAD"}:
            raise refusal.not_allowed(request.method)
        parts = path.strip("/").split("/")
        if parts[:2] == ["openapi", "v3"]:
            place = "/".join(parts[2:])
            found = openapi.document(self.kinds, place) if place else openapi.index(self.kinds)
        else:
            found = discovery.document(self.kinds, parts)
        if found is None:
            raise refusal.no_such_path()
        return Answer(data=msgspec.json.encode(found), verb="discover")

    def _act(self, request: Request, user: User, target: Target) -> Answer:
        kind = self.kinds.find(target.group, target.version, target.plural)
        if kind is None or (target.subresource and not (kind.has_status and target.subresource == "status")):
            raise refusal.no_such_path()
        if _is_misplaced(kind, target):
            raise refusal.no_such_path() if target.name else refusal.not_allowed(request.method)
        call = Call(
            verb=target.verb,
            kind=kind,
            user=user,
            namespace=target.namespace if kind.namespaced else "",
            name=unquote(target.name),
            subresource=target.subresource,
            options=request.options,
            agent=request.agent,
        )
        as_table = "as=Table" in request.accept
        match target.verb:
            case "get":
                return self._one(call, self.reads.get(call), as_table=as_table)
            case "list":
                return self._list(call, as_table=as_table)
            case "watch":
                event = _table_event(kind) if as_table else _event
                return Answer(lines=self.reads.watch(call, event), verb="watch")
            case _:
                return self._write(request, call)

    def _write(self, request: Request, call: Call) -> Answer:
        warnings: list[str] = []
        media = request.media
        code = 200
        match call.verb, bool(call.name):
            case "create", False:
                entry, code = self.writes.create(call, _object(request), warnings.append), 201
            case "update", True:
                entry, new = self.writes.update(call, _object(request), warnings.append)
                code = 201 if new else 200
            case "patch", True if media == APPLY:
                entry, new = self.writes.apply(call, bodies.decode(request.body), warnings.append)
                code = 201 if new else 200
            case "patch", True:
                entry = self.writes.patch(call, bodies.decode(request.body), media, warnings.append)
            case "delete", True if not call.subresource:
                return self._delete(call, bodies.decode(request.body) if request.body.strip() else {})
            case "deletecollection", False:
                return self._delete_all(call)
            case _:
                raise refusal.not_allowed(request.method)
        return Answer(code=code, data=entry.data, warnings=tuple(warnings), verb=call.verb)

    def _delete(self, call: Call, options: Any) -> Answer:
        entry = self.writes.delete(call, options if isinstance(options, dict) else {})
        still_there = self.store.get(call.kind.resource, call.key) is not None and not call.dry_run
        if still_there or call.kind.kind == "Namespace":
            return Answer(data=entry.data, verb=call.verb)
        details = {"name": call.name, "kind": call.kind.plural, "uid": entry.item["metadata"]["uid"]}
        if call.kind.group:
            details["group"] = call.kind.group
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
        return Answer(data=msgspec.json.encode(status), verb=call.verb)

    def _delete_all(self, call: Call) -> Answer:
        page = self.reads.list(call)
        for entry in page.entries:
            metadata = entry.item["metadata"]
            single = Call(
                verb="delete",
                kind=call.kind,
                user=call.user,
                namespace=metadata.get("namespace", ""),
                name=metadata["name"],
                options=call.options,
                agent=call.agent,
            )
            self.writes.delete(single, {})
        return Answer(data=_listed(call.kind, page), verb=call.verb)

    def _list(self, call: Call, *, as_table: bool) -> Answer:
        page = self.reads.list(call)
        if as_table:
            items = (entry.item for entry in page.entries)
            return Answer(data=msgspec.json.encode(tables.table(call.kind, items, _list_metadata(page))), verb="list")
        return Answer(data=_listed(call.kind, page), verb="list")

    def _one(self, call: Call, entry: Entry, *, as_table: bool) -> Answer:
        if as_table:
            metadata = {"resourceVersion": entry.item["metadata"]["resourceVersion"]}
            return Answer(data=msgspec.json.encode(tables.table(call.kind, [entry.item], metadata)), verb="get")
        return Answer(data=entry.data, verb="get")


def _is_misplaced(kind: Kind, target: Target) -> bool:
    """Tell whether a path has a namespace that the kind does not have, or the other way round."""
    if kind.resource == NAMESPACES:
        return False
    if not kind.namespaced:
        return bool(target.namespace)
    return not target.namespace and (bool(target.name) or target.verb not in {"list", "watch"})


def _object(request: Request) -> Any:
    """Return the object in a body, by its media type."""
    if request.media == protobuf.MEDIA:
        return protobuf.decode(request.body)
    known = ("application/json", "application/yaml", protobuf.MEDIA)
    if request.media not in known:
        raise refusal.unsupported_media(request.media, known)
    return bodies.decode(request.body)


def _list_metadata(page: Page) -> Item:
    metadata: Item = {"resourceVersion": str(page.revision)}
    if page.more:
        metadata |= {"continue": page.more, "remainingItemCount": page.remaining}
    return metadata


def _listed(kind: Kind, page: Page) -> bytes:
    head = msgspec.json.encode(
        {"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": _list_metadata(page)}
    )
    return b"".join([head[:-1], b',"items":[', b",".join([entry.data for entry in page.entries]), b"]}"])


def _event(kind: str, entry: Entry) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), entry.data)


def _table_event(kind: Kind) -> Callable[[str, Entry], bytes]:
    def event(word: str, entry: Entry) -> bytes:
        metadata = {"resourceVersion": entry.item["metadata"]["resourceVersion"]}
        item = tables.table(kind, [entry.item], metadata)
        return msgspec.json.encode({"type": word, "object": item}) + b"\n"

    return event


def _role(name: str, rules: list[Item]) -> Item:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": rules,
    }


_REVIEWERS = [
    {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
    {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
]
BEGINNING: Iterable[Item] = (
    *(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        for name in ("default", "kube-node-lease", "kube-public", "kube-system")
    ),
    _role("cluster-admin", [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]),
    _role("system:auth-delegator", _REVIEWERS),
)
"""What is there from the start. Of a real cluster's many ClusterRoles only these are."""
