"""What becomes of an observation, and why: pure, ordered rules over facts that were gathered before.

No clock, no network, no settings of its own: the same facts give the same decision, always. Nothing here
writes anything, and a decision can only ever name a new observed endpoint.
"""

from libs.rules.addresses import declared_port, endpoint_of
from libs.rules.decide import RULES, decide, lists_dial_endpoint, recorded_before
from libs.rules.facts import Decision, Facts, Limits, Network, Picture, Reason, Settled
from libs.rules.objections import names_node
from libs.rules.sources import BY_SOURCE, would_be_believed

__all__ = [
    "BY_SOURCE",
    "RULES",
    "Decision",
    "Facts",
    "Limits",
    "Network",
    "Picture",
    "Reason",
    "Settled",
    "decide",
    "declared_port",
    "endpoint_of",
    "lists_dial_endpoint",
    "names_node",
    "recorded_before",
    "would_be_believed",
]
