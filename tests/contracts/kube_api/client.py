"""Plain requests to a Kubernetes API, for tests that look at every byte; nothing of libs/kube is used."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import aiohttp
import yaml

GROUP = "apis/nodetrail.dev/v1alpha1"
JSON = "application/json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"

Item = dict[str, Any]


@dataclass
class Answer:
    """A status and a decoded body."""

    code: int
    body: Item
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def reason(self) -> str:
        return str(self.body.get("reason", ""))

    @property
    def message(self) -> str:
        return str(self.body.get("message", ""))

    @property
    def version(self) -> str:
        return str(self.body["metadata"]["resourceVersion"])

    @property
    def causes(self) -> list[Item]:
        causes: list[Item] = self.body.get("details", {}).get("causes", [])
        return causes

    def entry(self, manager: str, subresource: str = "") -> Item | None:
        """Return a manager's entry in managedFields."""
        for entry in self.body["metadata"].get("managedFields", []):
            if (entry["manager"], entry.get("subresource", "")) == (manager, subresource):
                return dict(entry)
        return None


class Client:
    """Speaks as the accounts of the kubeconfigs."""

    def __init__(self, kubeconfigs: dict[str, Path]) -> None:
        self.kubeconfigs = kubeconfigs
        loaded = {account: yaml.safe_load(path.read_text()) for account, path in kubeconfigs.items()}
        cluster = loaded["admin"]["clusters"][0]["cluster"]
        self.tokens = {account: config["users"][0]["user"]["token"] for account, config in loaded.items()}
        self.server = cluster["server"]
        authority = cluster.get("certificate-authority-data")
        self._tls: ssl.SSLContext | bool = True
        if authority:
            self._tls = ssl.create_default_context(cadata=base64.b64decode(authority).decode())
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60))
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._session is not None
        await self._session.close()

    async def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        media: str = JSON,
        *,
        account: str = "admin",
        token: str | None = None,
        headers: dict[str, str] | None = None,
        **query: object,
    ) -> Answer:
        """Send one request; underlined names such as `dryRun` go into the query."""
        token = self.tokens[account] if token is None else token
        async with self._sent(method, path, body, media, token=token, headers=headers, query=query) as response:
            text = await response.text()
            try:
                decoded = json.loads(text)
            except ValueError:
                decoded = {"text": text}
            return Answer(response.status, decoded, dict(response.headers))

    async def must(self, method: str, path: str, body: object = None, media: str = JSON, **options: Any) -> Answer:
        """Send a request that has to succeed."""
        answer = await self.ask(method, path, body, media, **options)
        assert answer.code < 300, (method, path, answer.body)
        return answer

    async def watch(self, path: str, *, until: int = 1_000_000, account: str = "admin", **query: object) -> list[Item]:
        """Return the events of a watch, up to a number of them or to its end."""
        events: list[Item] = []
        query = {"timeoutSeconds": 5, **query, "watch": "true"}
        async with self._sent("GET", path, token=self.tokens[account], query=query) as response:
            if response.status != 200:
                return [{"type": "HTTP", "object": json.loads(await response.text())}]
            async for line in response.content:
                events.append(json.loads(line))
                if len(events) >= until:
                    break
        return events

    def _sent(
        self,
        method: str,
        path: str,
        body: object = None,
        media: str = JSON,
        *,
        token: str,
        headers: dict[str, str] | None = None,
        query: dict[str, object],
    ) -> Any:
        assert self._session is not None
        sent = {
            "Content-Type": media,
            "User-Agent": "contract/1",
            **({"Authorization": f"Bearer {token}"} if token else {}),
        }
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        return self._session.request(
            method,
            f"{self.server}/{path}",
            params={name: str(value) for name, value in query.items()},
            data=data,
            headers=sent | (headers or {}),
            ssl=self._tls,
        )


class Machines:
    """The TalosMachines of one namespace."""

    def __init__(self, api: Client, namespace: str) -> None:
        self.api = api
        self.namespace = namespace
        self.path = f"{GROUP}/namespaces/{namespace}/talosmachines"

    @classmethod
    async def in_new_namespace(cls, api: Client) -> Machines:
        name = f"test-{uuid.uuid4().hex[:8]}"
        await api.must("POST", "api/v1/namespaces", {"metadata": {"name": name}})
        return cls(api, name)

    def body(self, name: str = "a", *, spec: Item | None = None, **metadata: Any) -> Item:
        return {
            "apiVersion": "nodetrail.dev/v1alpha1",
            "kind": "TalosMachine",
            "metadata": {"name": name, **metadata},
            "spec": {"endpoint": "192.0.2.1"} if spec is None else spec,
        }

    async def create(self, name: str = "a", *, spec: Item | None = None, **metadata: Any) -> Answer:
        return await self.api.must("POST", self.path, self.body(name, spec=spec, **metadata))

    async def get(self, name: str = "a") -> Answer:
        return await self.api.must("GET", f"{self.path}/{name}")

    async def merge(self, change: Item, name: str = "a", sub: str = "", **options: Any) -> Answer:
        return await self.api.ask("PATCH", f"{self.path}/{name}{sub}", change, MERGE, **options)

    async def status(self, change: Item, name: str = "a", **options: Any) -> Answer:
        """Merge into status."""
        return await self.merge({"status": change}, name, "/status", **options)

    async def apply(
        self,
        config: Item,
        name: str = "a",
        sub: str = "",
        *,
        manager: str = "alice",
        force: bool = False,
        account: str = "admin",
        **metadata: Any,
    ) -> Answer:
        body = {"apiVersion": "nodetrail.dev/v1alpha1", "kind": "TalosMachine", "metadata": {"name": name, **metadata}}
        query: Item = {"fieldManager": manager, "force": str(force).lower()}
        path = f"{self.path}/{name}{sub}"
        return await self.api.ask("PATCH", path, {**body, **config}, APPLY, account=account, **query)

    async def clear(self) -> None:
        """Delete everything of the test, and the namespace with it; no controller of a real cluster is there to do so."""
        for item in (await self.api.must("GET", self.path)).body["items"]:
            if item["metadata"].get("finalizers"):
                await self.merge({"metadata": {"finalizers": None}}, item["metadata"]["name"])
        for path in (self.path, *(f"api/v1/namespaces/{self.namespace}/{kind}" for kind in ("secrets", "events"))):
            await self.api.must("DELETE", path)
        path = f"api/v1/namespaces/{self.namespace}"
        await self.api.ask("DELETE", path)
        left = await self.api.ask("GET", path)
        if left.code == 200:
            await self.api.ask("PUT", f"{path}/finalize", {**left.body, "spec": {"finalizers": []}})


async def next_second(moment: str) -> None:
    """Return when managedFields' clock, which has whole seconds, shows another time than that."""
    from datetime import UTC, datetime

    while datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") <= moment:
        await asyncio.sleep(0.02)
