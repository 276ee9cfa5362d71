"""Owns the life of a machine: registered, probed, sent its configuration once, read, located when it is lost.

It writes the machine's status but for `observed*`, which follows from what it publishes, and never a spec.
Gather, plan, act: `plan` decides and is pure; `ask`, `locate` and `send` touch nodes; `status` writes;
`loop` says which machine is next. Drift, adoption and operations are not done here yet: a node that differs
from its configuration is shown, never written to.
"""
