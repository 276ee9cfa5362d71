"""The writes: create, update, patch, apply and delete, each from request to stored object.

The order is that of a real API server: shape, precondition, what the server itself sets, schema and rules,
owners, admission, store. A write that changes nothing is answered with what is there and gets no new version.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from services.devapi import builtin, managed, metadata, patch, refusal, schema
from services.devapi.admission import Admission, Write
from services.devapi.calls import Call
from services.devapi.cel.rules import broken
from services.devapi.managed import Manager
from services.devapi.rbac import Act, Rbac, refused_because
from services.devapi.refusal import Cause
from services.devapi.ring import Entry
from services.devapi.special import Special
from services.devapi.store import Key, Store

Item = dict[str, Any]
Warn = Callable[[str], None]

OBJECT_BYTES_MAX = 1_500_000
"""What etcd takes."""
NAMESPACES = ("", "namespaces")

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


class Writes:
    """Everything that changes the store on somebody's behalf."""

    def __init__(
        self, store: Store, special: Special, admission: Admission, rbac: Rbac, *, now: Callable[[], str] = metadata.now
    ) -> None:
        self._store = store
        self._special = special
        self._admission = admission
        self._rbac = rbac
        self._now = now

    def create(self, call: Call, body: Item, warn: Warn) -> Entry:
        """Store a new object; its name may be left to the server (`generateName`)."""
        body = self._shaped(call, body, warn)
        item = self._new(call, body)
        empty = {"apiVersion": item["apiVersion"], "kind": item["kind"], "metadata": {}}
        manager = Manager(call.manager(), "Update")
        item = managed.after_update(empty, item, schema=call.kind.schema, manager=manager, reset=set(), now=self._now())
        return self._store_new(call, item)

    def update(self, call: Call, body: Item, warn: Warn) -> tuple[Entry, bool]:
        """Replace an object (PUT), unless it is not what the writer has read any more; tell whether it is new."""
        if call.kind.put_creates and self._store.get(call.kind.resource, call.key) is None:
            self._need_right_to_create(call)
            return self.create(call, body, warn), True
        live = self._live(call)
        body = self._shaped(call, body, warn)
        if not (body["metadata"].get("resourceVersion") or call.kind.unconditional_update):
            message = "Invalid value: 0: must be specified for an update"
            cause = Cause(field="metadata.resourceVersion", reason="FieldValueInvalid", message=message)
            raise refusal.invalid(call.kind.kind, call.kind.group, call.name, [cause])
        return self._replace(call, live, body), False

    def patch(self, call: Call, change: Any, media: str, warn: Warn) -> Entry:
        """Change an object by one of the three plain patch kinds."""
        live = self._live(call)
        match media:
            case "application/merge-patch+json":
                body = patch.merge(live.item, change)
            case "application/json-patch+json":
                body = patch.json_patch(live.item, change)
            case "application/strategic-merge-patch+json" if not call.kind.custom:
                body = patch.strategic(live.item, change, call.kind.schema)
            case _:
                known = (JSON_PATCH, MERGE, APPLY) + (() if call.kind.custom else (STRATEGIC,))
                raise refusal.unsupported_media(media, known)
        return self._replace(call, live, self._shaped(call, body, warn))

    def apply(self, call: Call, config: Any, warn: Warn) -> tuple[Entry, bool]:
        """Server-side apply; also tell whether the object is new."""
        manager = Manager(call.manager(applying=True), "Apply", call.subresource)
        config = self._shaped(call, config, warn, applying=True)
        if config["metadata"].get("managedFields"):
            raise refusal.bad_request("metadata.managedFields must be nil")
        live = self._store.get(call.kind.resource, call.key)
        if live is None:
            return self._apply_new(call, config, manager), True
        self._check_version(call, live, config)
        reset = _reset_by(call)
        item, owners = managed.apply(
            live.item, config, schema=call.kind.schema, manager=manager, force=call.force, reset=reset
        )
        item = self._changed(call, live.item, item)
        item = managed.applied(live.item, item, owners, manager=manager, now=self._now())
        return self._store_changed(call, live, item), False

    def delete(self, call: Call, options: Item) -> Entry:
        """Delete an object, or mark it as going while it has finalizers."""
        live = self._live(call)
        wanted = options.get("preconditions") or {}
        for field, value in (("uid", wanted.get("uid")), ("resourceVersion", wanted.get("resourceVersion"))):
            if value and value != live.item["metadata"][field]:
                what = "UID" if field == "uid" else "ResourceVersion"
                raise call.conflict(
                    f"Precondition failed: {what} in precondition: {value}, {what} in object meta: "
                    f"{live.item['metadata'][field]}"
                )
        self._admit(call, "DELETE", None, live.item)
        if call.dry_run:
            return live
        if call.kind.resource == NAMESPACES:
            return self._end_namespace(call, live)
        return self._end(call.kind.resource, call.key, live)

    def _apply_new(self, call: Call, config: Item, manager: Manager) -> Entry:
        if call.subresource:
            raise call.not_found()
        self._need_right_to_create(call)
        empty = {"apiVersion": config["apiVersion"], "kind": config["kind"], "metadata": {}}
        _, owners = managed.apply(
            empty, config, schema=call.kind.schema, manager=manager, force=call.force, reset=_reset_by(call)
        )
        item = self._new(call, schema.defaulted(config, call.kind.schema) if call.kind.custom else config)
        return self._store_new(call, managed.applied(empty, item, owners, manager=manager, now=self._now()))

    def _need_right_to_create(self, call: Call) -> None:
        """Refuse who may change an object but not make one, when there is none yet."""
        act = Act("create", call.kind.group, call.kind.plural, call.namespace, call.name)
        if not self._rbac.allows(call.user, act):
            raise refusal.forbidden(call.kind.plural, call.kind.group, call.name, refused_because(call.user, act))

    def _live(self, call: Call) -> Entry:
        live = self._store.get(call.kind.resource, call.key)
        if live is None:
            raise call.not_found()
        return live

    def _shaped(self, call: Call, given: Any, warn: Warn, *, applying: bool = False) -> Item:
        """Return a body that is an object of the right kind, name and namespace, without unknown fields."""
        kind = call.kind
        if not isinstance(given, dict) or not isinstance(given.get("metadata") or {}, dict):
            raise refusal.bad_request("the body is not a Kubernetes object")
        body: Item = {
            "apiVersion": given.get("apiVersion") or kind.api_version,
            "kind": given.get("kind") or kind.kind,
            **{key: value for key, value in given.items() if key not in {"apiVersion", "kind"}},
            "metadata": given.get("metadata") or {},
        }
        _check_kind(call, body)
        _check_place(call, body["metadata"])
        if kind.custom:
            body, dropped = schema.pruned(body, kind.schema)
            if dropped and applying:
                raise refusal.undeclared(kind.api_version, kind.kind, call.name, dropped[0])
            _report(dropped, call.options.get("fieldValidation", "Warn"), warn)
            if not applying:
                body = schema.defaulted(body, kind.schema)
        return body

    def _new(self, call: Call, body: Item) -> Item:
        """Return a new object as it would be stored, checked but for admission."""
        kind = call.kind
        self._check_namespace(call)
        item = {**body, "metadata": metadata.for_new(kind, body, namespace=call.namespace, time=self._now())}
        if kind.has_status and kind.kind != "Node":  # kubelets register a Node with its status
            item.pop("status", None)
        item = self._special.prepared(kind, builtin.complete(kind, item))
        self._check(call, item, None)
        return item

    def _replace(self, call: Call, live: Entry, body: Item) -> Entry:
        """Store an object in place of the one that is there, as far as the caller's endpoint reaches."""
        self._check_version(call, live, body)
        item = self._changed(call, live.item, body)
        manager = Manager(call.manager(), "Update", call.subresource)
        item = managed.after_update(
            live.item, item, schema=call.kind.schema, manager=manager, reset=_reset_by(call), now=self._now()
        )
        return self._store_changed(call, live, item)

    def _changed(self, call: Call, live: Item, body: Item) -> Item:
        """Return the object after a change, checked but for admission; status and main resource keep apart."""
        kind = call.kind
        if call.subresource == "status":
            meta = live["metadata"] if kind.custom else metadata.for_changed(live, body)
            kept = {key: value for key, value in live.items() if key != "status"}
            item = {**kept, "metadata": meta} | ({"status": body["status"]} if "status" in body else {})
        else:
            item = {**body, "metadata": metadata.for_changed(live, body)}
            if kind.has_status:
                item.pop("status", None)
                if "status" in live:
                    item["status"] = live["status"]
            item = self._special.prepared(kind, builtin.complete(kind, item))
            if kind.has_generation and _content(item) != _content(live):
                item["metadata"] = {**item["metadata"], "generation": live["metadata"].get("generation", 0) + 1}
        self._check(call, item, live)
        return item

    def _check_version(self, call: Call, live: Entry, body: Item) -> None:
        given = body["metadata"]
        version = given.get("resourceVersion")
        if version and version != live.item["metadata"]["resourceVersion"]:
            raise call.conflict()
        if given.get("uid") and given["uid"] != live.item["metadata"]["uid"]:
            message = f'Invalid value: "{given["uid"]}": field is immutable'
            cause = Cause(field="metadata.uid", reason="FieldValueInvalid", message=message)
            raise refusal.invalid(call.kind.kind, call.kind.group, call.name, [cause])

    def _check_namespace(self, call: Call) -> None:
        if not call.kind.namespaced:
            return
        entry = self._store.get(NAMESPACES, ("", call.namespace))
        if entry is None:
            raise refusal.not_found("namespaces", "", call.namespace)
        if "deletionTimestamp" in entry.item["metadata"]:
            why = f"unable to create new content in namespace {call.namespace} because it is being terminated"
            raise refusal.forbidden(call.kind.plural, call.kind.group, call.name, why)

    def _check(self, call: Call, item: Item, old: Item | None) -> None:
        """Refuse an object that breaks its schema or rules, with every field named."""
        kind = call.kind
        causes = list(metadata.faults(kind, item["metadata"]))
        if kind.custom:
            causes += schema.faults(item, kind.schema) if old is None else schema.new_faults(item, old, kind.schema)
            if kind.rules is not None and not causes:
                causes += broken(kind.rules, item, old) if old is not None else broken(kind.rules, item)
        if causes:
            raise refusal.invalid(kind.kind, kind.group, item["metadata"]["name"] or call.name, causes)

    def _admit(self, call: Call, operation: str, new: Item | None, old: Item | None) -> None:
        namespace = self._store.get(NAMESPACES, ("", call.namespace)) if call.namespace else None
        whole = new or old or {}
        self._admission.check(
            Write(
                operation=operation,
                group=call.kind.group,
                version=call.kind.version,
                kind=call.kind.kind,
                resource=call.kind.plural,
                subresource=call.subresource,
                namespace=call.namespace,
                name=whole["metadata"]["name"],
                user=call.user,
                new=new,
                old=old,
                dry_run=call.dry_run,
                namespace_object=namespace.item if namespace else None,
            )
        )

    def _store_new(self, call: Call, item: Item) -> Entry:
        key = call.namespace, item["metadata"]["name"]
        self._admit(call, "CREATE", item, None)
        if self._store.get(call.kind.resource, key) is not None:
            raise refusal.already_exists(call.kind.plural, call.kind.group, key[1])
        entry = self._store_bounded(call, key, item, revision="")
        if call.kind.keep_max and not call.dry_run:
            self._forget_oldest(call)
        return entry

    def _store_changed(self, call: Call, live: Entry, item: Item) -> Entry:
        self._admit(call, "UPDATE", item, live.item)
        if managed.same_but_for_times(live.item, item):
            return live
        entry = self._store_bounded(call, call.key, item, revision=live.item["metadata"]["resourceVersion"])
        if _is_ready_to_go(item) and not call.dry_run:
            return self._end(call.kind.resource, call.key, entry)
        return entry

    def _store_bounded(self, call: Call, key: Key, item: Item, *, revision: str) -> Entry:
        if call.dry_run:
            stamped = {**item, "metadata": {**item["metadata"], "resourceVersion": revision}}
            return Entry(stamped, 0, msgspec.json.encode(stamped))
        self._special.check(call.kind, item)
        entry = self._store.put(call.kind.resource, key, item, bytes_max=OBJECT_BYTES_MAX)
        self._special.changed(call.kind, key, item)
        return entry

    def _forget_oldest(self, call: Call) -> None:
        entries = self._store.collection(call.kind.resource).entries
        while len(entries) > call.kind.keep_max:
            self._store.remove(call.kind.resource, next(iter(entries)))

    def _end(self, resource: tuple[str, str], key: Key, live: Entry) -> Entry:
        """Remove an object, or mark it while it has finalizers; the last one of a going namespace ends that too."""
        if live.item["metadata"].get("finalizers"):
            if "deletionTimestamp" in live.item["metadata"]:
                return live
            return self._store.put(resource, key, metadata.deleting(live.item, self._now()))
        gone = self._store.remove(resource, key)
        self._special.gone(resource, key)
        if key[0]:
            self._end_namespace_if_empty(key[0])
        return gone

    def _end_namespace(self, call: Call, live: Entry) -> Entry:
        """Do at once what the namespace controller of a real cluster does: delete everything in it, then itself."""
        item = live.item
        if "deletionTimestamp" not in item["metadata"]:
            item = metadata.deleting(item, self._now())
            item = {**item, "status": {**item.get("status", {}), "phase": "Terminating"}}
            live = self._store.put(NAMESPACES, call.key, item)
        for resource, collection in list(self._store.collections().items()):
            for key, entry in collection.sorted(call.name):
                self._end(resource, key, entry)
        self._end_namespace_if_empty(call.name)
        return live

    def _end_namespace_if_empty(self, name: str) -> None:
        entry = self._store.get(NAMESPACES, ("", name))
        if entry is None or "deletionTimestamp" not in entry.item["metadata"]:
            return
        if not any(key[0] == name for c in self._store.collections().values() for key in c.entries):
            self._store.remove(NAMESPACES, ("", name))


def _check_kind(call: Call, body: Item) -> None:
    kind = call.kind
    if body["apiVersion"] != kind.api_version:
        raise refusal.bad_request(
            f"the API version in the data ({body['apiVersion']}) does not match the expected API version "
            f"({kind.api_version})"
        )
    if body["kind"] != kind.kind:
        message = f'Invalid value: "{body["kind"]}": must be {kind.kind}'
        cause = Cause(field="kind", reason="FieldValueInvalid", message=message)
        raise refusal.invalid(str(body["kind"]), kind.group, call.name or body["metadata"].get("name", ""), [cause])


def _check_place(call: Call, given: Item) -> None:
    name = given.get("name", "")
    if call.name and name and name != call.name:
        raise refusal.bad_request(f"the name of the object ({name}) does not match the name on the URL ({call.name})")
    namespace = given.get("namespace", "")
    if call.kind.namespaced and namespace and namespace != call.namespace:
        raise refusal.bad_request(
            f"the namespace of the provided object does not match the namespace sent on the request: "
            f"{namespace}, {call.namespace}"
        )


def _report(dropped: list[str], validation: str, warn: Warn) -> None:
    """Tell the writer of fields that the schema does not know: as an error, a warning or not at all."""
    if dropped and validation == "Strict":
        listed = ", ".join(f'unknown field "{path}"' for path in dropped)
        raise refusal.bad_request(f"strict decoding error: {listed}")
    if validation == "Warn":
        for path in dropped:
            warn(f'unknown field "{path}"')


def _reset_by(call: Call) -> set[tuple[str, ...]]:
    """Return the fields that an endpoint leaves alone, whatever is sent to it."""
    if call.subresource == "status":
        return {("f:spec",), ("f:metadata",)} if call.kind.custom else {("f:spec",)}
    return {("f:status",)} if call.kind.has_status else set()


def _content(item: Item) -> Item:
    return {key: value for key, value in item.items() if key not in {"metadata", "status"}}


def _is_ready_to_go(item: Item) -> bool:
    return "deletionTimestamp" in item["metadata"] and not item["metadata"].get("finalizers")
