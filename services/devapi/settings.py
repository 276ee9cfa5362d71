"""The settings of devapi. It needs no NATS; the common NATS settings are read and not used."""

from typing import Annotated

from msgspec import Meta

from libs.runtime import CommonSettings


class Settings(CommonSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Besides LISTEN, where the API is served together with health and metrics."""

    tokens: str = ""
    """File of `token,user,uid,"group,group"` lines, as for --token-auth-file. Without one everybody is admin."""
    manifests: tuple[str, ...] = ()
    """Files and folders applied at the start, in this order; a folder with a kustomization as that lists it."""
    history: Annotated[int, Meta(ge=1, le=1_000_000)] = 10_000
    """Changes kept of each kind for watches; who is further behind has to list again."""
