"""ValidatingAdmissionPolicies: compiled when they are stored, evaluated on every write that their bindings cover.

Offered: resource rules, selectors, match conditions, variables, validations with message expressions, and deny
actions. Not offered, and refused when a policy asks for it: parameters. Audit annotations and Warn/Audit
actions are stored and do nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from services.devapi import refusal
from services.devapi.cel import CelError, Expression, compile_expression
from services.devapi.refusal import Cause, Refusal
from services.devapi.selectors import matches_selector
from services.devapi.users import User

GROUP = "admissionregistration.k8s.io"
POLICIES = (GROUP, "validatingadmissionpolicies")
BINDINGS = (GROUP, "validatingadmissionpolicybindings")

_VARIABLES = {"object", "oldObject", "request", "params", "namespaceObject", "variables"}
_CODES = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413}


@dataclass(frozen=True, kw_only=True)
class Write:
    """A write about to happen."""

    operation: str
    """CREATE, UPDATE or DELETE."""
    group: str
    version: str
    kind: str
    resource: str
    subresource: str
    namespace: str
    name: str
    user: User
    new: dict[str, Any] | None
    old: dict[str, Any] | None
    dry_run: bool
    namespace_object: dict[str, Any] | None

    def request(self) -> dict[str, Any]:
        """Return the `request` that expressions see."""
        return {
            "kind": {"group": self.group, "version": self.version, "kind": self.kind},
            "resource": {"group": self.group, "version": self.version, "resource": self.resource},
            "subResource": self.subresource,
            "name": self.name,
            "namespace": self.namespace,
            "operation": self.operation,
            "userInfo": {"username": self.user.name, "uid": self.user.uid, "groups": list(self.user.groups)},
            "dryRun": self.dry_run,
        }


@dataclass(frozen=True)
class Validation:
    """One condition that has to hold."""

    expression: Expression
    message: str
    message_expression: Expression | None
    reason: str


@dataclass(frozen=True)
class Policy:
    """A policy, compiled."""

    name: str
    constraints: dict[str, Any]
    conditions: tuple[Expression, ...]
    variables: dict[str, Expression]
    validations: tuple[Validation, ...]
    fails_closed: bool


def compile_policy(item: dict[str, Any]) -> Policy:
    """Compile a policy; refuses one that devapi would not enforce as it is written."""
    spec = item.get("spec") or {}
    name = item["metadata"]["name"]
    if spec.get("paramKind"):
        raise refusal.not_offered("ValidatingAdmissionPolicies with paramKind")
    try:
        return Policy(
            name,
            spec.get("matchConstraints") or {},
            tuple(compile_expression(c["expression"], _VARIABLES) for c in spec.get("matchConditions") or ()),
            {v["name"]: compile_expression(v["expression"], _VARIABLES) for v in spec.get("variables") or ()},
            tuple(_validation(validation) for validation in spec.get("validations") or ()),
            spec.get("failurePolicy", "Fail") == "Fail",
        )
    except CelError as error:
        cause = Cause(field="spec", reason="FieldValueInvalid", message=f"compilation failed: {error}")
        raise refusal.invalid("ValidatingAdmissionPolicy", GROUP, name, [cause]) from error


def _validation(spec: dict[str, Any]) -> Validation:
    text = spec.get("messageExpression")
    return Validation(
        compile_expression(spec["expression"], _VARIABLES),
        spec.get("message") or f"failed expression: {spec['expression']}",
        compile_expression(text, _VARIABLES) if text else None,
        spec.get("reason") or "Invalid",
    )


class Admission:
    """The policies in force, with the bindings that put them in force."""

    def __init__(self) -> None:
        self._policies: dict[str, Policy] = {}
        self._bindings: dict[str, dict[str, Any]] = {}

    def policy_changed(self, name: str, item: dict[str, Any] | None) -> None:
        self._policies.pop(name, None)
        if item is not None:
            self._policies[name] = compile_policy(item)

    def binding_changed(self, name: str, item: dict[str, Any] | None) -> None:
        self._bindings.pop(name, None)
        if item is not None:
            self._bindings[name] = item["spec"]

    def check(self, write: Write) -> None:
        """Refuse the write if a policy that covers it does not hold."""
        for binding, spec in self._bindings.items():
            policy = self._policies.get(spec.get("policyName", ""))
            if policy is None or "Deny" not in (spec.get("validationActions") or ()):
                continue
            if _covers(policy.constraints, write) and _covers(spec.get("matchResources") or {}, write):
                _enforce(policy, binding, write)


def _covers(constraints: dict[str, Any], write: Write) -> bool:
    rules = constraints.get("resourceRules")
    if rules is not None and not any(_rule_covers(rule, write) for rule in rules):
        return False
    if any(_rule_covers(rule, write) for rule in constraints.get("excludeResourceRules") or ()):
        return False
    labels = _labels(write.namespace_object)
    if write.namespace and not matches_selector(constraints.get("namespaceSelector"), labels):
        return False
    selector = constraints.get("objectSelector")
    return not selector or any(matches_selector(selector, _labels(item)) for item in (write.new, write.old) if item)


def _labels(item: dict[str, Any] | None) -> dict[str, str]:
    return (item or {}).get("metadata", {}).get("labels") or {}


def _rule_covers(rule: dict[str, Any], write: Write) -> bool:
    names = rule.get("resourceNames")
    return (
        _any(rule.get("apiGroups"), write.group)
        and _any(rule.get("apiVersions"), write.version)
        and _any(rule.get("operations"), write.operation)
        and any(_resource_covers(known, write) for known in rule.get("resources") or ())
        and (not names or write.name in names)
    )


def _any(known: list[str] | None, word: str) -> bool:
    return "*" in (known or ()) or word in (known or ())


def _resource_covers(known: str, write: Write) -> bool:
    plural, slash, subresource = known.partition("/")
    if plural not in {"*", write.resource}:
        return False
    return subresource in {"*", write.subresource} if slash else not write.subresource


class _Lazy(dict[str, Any]):
    """A policy's variables, each evaluated when first read, once for each write."""

    def __init__(self, expressions: Mapping[str, Expression], scope: dict[str, Any]) -> None:
        super().__init__()
        self._expressions = expressions
        self._scope = scope

    def __contains__(self, name: object) -> bool:
        return name in self._expressions

    def __missing__(self, name: str) -> Any:
        self[name] = self._expressions[name](self._scope)
        return self[name]


def _enforce(policy: Policy, binding: str, write: Write) -> None:
    scope: dict[str, Any] = {
        "object": write.new,
        "oldObject": write.old,
        "request": write.request(),
        "params": None,
        "namespaceObject": write.namespace_object,
    }
    scope["variables"] = _Lazy(policy.variables, scope)
    for message, reason in _objections(policy, scope):
        prose = f"ValidatingAdmissionPolicy '{policy.name}' with binding '{binding}' denied request: {message}"
        resource = f"{write.resource}.{write.group}" if write.group else write.resource
        raise Refusal(
            _CODES.get(reason, 422),
            reason,
            f'{resource} "{write.name}" is forbidden: {prose}',
            {
                "name": write.name,
                "group": write.group,
                "kind": write.resource,
                "causes": [{"message": prose}],
            },
        )


def _objections(policy: Policy, scope: dict[str, Any]) -> Iterator[tuple[str, str]]:
    try:
        if not all(condition(scope) for condition in policy.conditions):
            return
    except CelError as error:
        if policy.fails_closed:
            yield f"match condition: {error}", "Invalid"
        return
    for validation in policy.validations:
        try:
            holds = validation.expression(scope) is True
        except CelError as error:
            if policy.fails_closed:
                yield f"expression '{validation.expression.text}' resulted in error: {error}", "Invalid"
            continue
        if not holds:
            yield _message(validation, scope), validation.reason


def _message(validation: Validation, scope: dict[str, Any]) -> str:
    if validation.message_expression is None:
        return validation.message
    try:
        return str(validation.message_expression(scope))
    except CelError:
        return validation.message
