"""Who we are to which API server: a kubeconfig or the pod's service account, loaded by the kubernetes library.

Loading reads files and may run an exec plugin, so it happens in a thread. The library's own informers,
watches and models are not used: importing it is heavy enough, and its watch does not end well.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from kubernetes.aio.client import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config import ConfigException, load_incluster_config, load_kube_config

from libs.kube import errors

_LOADER_ERRORS = (ConfigException, OSError, ValueError, TypeError, KeyError, AttributeError, yaml.YAMLError)
"""All that the loader raises on files that are missing, half-written or of another shape."""


@dataclass(frozen=True)
class Credentials:
    """A way to an API server. `configuration` is the library's; a service account's token in it renews itself."""

    host: str
    tls: ssl.SSLContext
    configuration: Any

    async def authorization(self) -> str:
        """Return the header to send, or nothing when a client certificate or nothing at all speaks for us."""
        try:
            settings = await self.configuration.auth_settings()
        except ConfigException as error:  # the pod's token file is empty just now
            raise errors.Unauthorized(f"no token for {self.host}: {error}") from error
        # A token file usually ends in a newline, which no header may hold.
        return str(settings.get("BearerToken", {}).get("value") or "").strip()


async def load(kubeconfig: str | None) -> Credentials:
    """Load from that file, else from KUBECONFIG, else ~/.kube/config, else the pod's service account."""
    return await asyncio.to_thread(_load, kubeconfig)


def _load(kubeconfig: str | None) -> Credentials:
    paths = kubeconfig or os.environ.get("KUBECONFIG") or ""
    if not paths and (home := Path.home() / ".kube" / "config").exists():
        paths = str(home)
    configuration = Configuration()
    try:
        if paths:
            _must_exist(paths)
            asyncio.run(load_kube_config(paths, client_configuration=configuration, persist_config=False))
        else:
            load_incluster_config(client_configuration=configuration)
        tls = RESTClientObject(configuration).ssl_context
    except _LOADER_ERRORS as error:
        where = paths or "without KUBECONFIG or ~/.kube/config, the pod's service account"
        hint = "" if paths else "; set KUBECONFIG to a kubeconfig"
        raise errors.KubeconfigError(f"{where} gives no way to a Kubernetes API: {error}{hint}") from error
    return Credentials(configuration.host.rstrip("/"), tls, configuration)


def _must_exist(paths: str) -> None:
    """The library only warns about a missing file and then fails on something else."""
    if not any(Path(path).expanduser().is_file() for path in paths.split(os.pathsep) if path):
        raise FileNotFoundError("no such file")
