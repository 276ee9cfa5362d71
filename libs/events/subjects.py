"""Every subject, made and read in one place. What comes from outside is encoded; the real name is in the payload."""

import hashlib
import re

PREFIX = "nodetrail"
TRAIL = "TRAIL"
"""The history."""
SIGHTINGS = "SIGHTINGS"
"""The present: the newest message of each subject."""

TRAIL_SUBJECTS = (
    "nodetrail.observed.node.>",
    "nodetrail.observed.lookup.>",
    "nodetrail.observed.read.>",
    "nodetrail.decided.>",
    "nodetrail.machine.>",
    "nodetrail.dead.>",
)
SIGHTINGS_SUBJECTS = ("nodetrail.observed.discovery.>", "nodetrail.sighted.>")

TOKEN_MAX = 64
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_DIGEST = 16


def token(text: str) -> str:
    """Encode outside text as one subject token; different texts give different tokens.

    Text that is a token already, and shorter than the longest, stays itself; an encoded one is always the longest.
    """
    if text and len(text) < TOKEN_MAX and not _UNSAFE.search(text):
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    readable = _UNSAFE.sub("-", text)[: TOKEN_MAX - _DIGEST - 1]
    return f"{readable:_<{TOKEN_MAX - _DIGEST - 1}}-{digest}"


def observed_discovery(site: str, identity_key: str) -> str:
    """SIGHTINGS: a site's whole picture of one identity in maintenance mode."""
    return f"nodetrail.observed.discovery.{token(site)}.{token(identity_key)}"


def sighted(site: str, common_name: str) -> str:
    """SIGHTINGS: a configured node answers somewhere at this site."""
    return f"nodetrail.sighted.{token(site)}.{token(common_name)}"


def observed_node(node_name: str) -> str:
    """TRAIL: what a Kubernetes Node says about its addresses."""
    return f"nodetrail.observed.node.{token(node_name)}"


def observed_lookup(namespace: str, name: str) -> str:
    """TRAIL: a machine's Kubernetes Node, read after a failed read of the machine."""
    return f"nodetrail.observed.lookup.{token(namespace)}.{token(name)}"


def observed_read(namespace: str, name: str) -> str:
    """TRAIL: proven by an authenticated read."""
    return f"nodetrail.observed.read.{token(namespace)}.{token(name)}"


def decided(outcome: str, namespace: str, name: str) -> str:
    """TRAIL: a decision about a machine; `outcome` is `recorded` or `refused`."""
    return f"nodetrail.decided.{outcome}.{token(namespace)}.{token(name)}"


def decided_unmatched(outcome: str, identity_key: str) -> str:
    """TRAIL: a decision about an identity that is no machine's."""
    return f"nodetrail.decided.{outcome}._.{token(identity_key)}"


def machine(what: str, namespace: str, name: str) -> str:
    """TRAIL: what else happened; `what` is registered, readiness, configuration or operation."""
    return f"nodetrail.machine.{what}.{token(namespace)}.{token(name)}"


def dead(consumer: str) -> str:
    """TRAIL: what that consumer set aside."""
    return f"nodetrail.dead.{token(consumer)}"


def source_of(subject: str) -> str | None:
    """Return the source that the server's permissions vouch for, or None when the subject is no observation."""
    parts = subject.split(".")
    if len(parts) >= 4 and parts[:2] == [PREFIX, "observed"]:
        return parts[2]
    return None


def site_of(subject: str) -> str | None:
    """Return the (encoded) site of a discovery observation's subject."""
    parts = subject.split(".")
    return parts[3] if source_of(subject) == "discovery" and len(parts) == 5 else None
