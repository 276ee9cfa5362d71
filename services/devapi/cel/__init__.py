"""A small CEL (Common Expression Language), enough for nodetrail's own rules and admission policies.

`compile` refuses what it does not know, so no rule is ever skipped in silence. There is no type check before
evaluation and no cost budget; a wrong type raises `CelError` when the expression is evaluated.
"""

from services.devapi.cel.evaluate import Expression, compile_expression
from services.devapi.cel.values import CelError

__all__ = ["CelError", "Expression", "compile_expression"]
