"""The conventions of scikit-learn that make sense for released statistics; it is not needed itself."""

from __future__ import annotations

import sys
from importlib import import_module
from inspect import signature
from typing import Any, Self

from ...foundation.errors import QueryError, nearest
from ...foundation.shown_result import FrameResult


class Learner(FrameResult):
    """Parameters are the arguments of ``__init__``, stored unchanged and checked by ``fit``.

    What ``fit`` learns is in attributes that end in an underscore.
    """

    @classmethod
    def _names(cls) -> list[str]:
        return [name for name in signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name; ``deep`` is for scikit-learn and changes nothing."""
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **params: Any) -> Self:
        """Sets parameters by name; the learner must be fitted again."""
        for name, value in params.items():
            if name not in self._names():
                near = nearest(name, self._names())
                hint = f"did you mean {near!r}?" if near else f"known: {', '.join(self._names())}"
                raise QueryError(f"{type(self).__name__} has no parameter {name!r}; {hint}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = {name: p.default for name, p in signature(type(self).__init__).parameters.items()}
        given = [f"{n}={v!r}" for n, v in self.get_params().items() if v is not defaults[n]]
        return f"{type(self).__name__}({', '.join(given)})"

    def __sklearn_is_fitted__(self) -> bool:
        """Whether ``fit`` was called; scikit-learn's ``check_is_fitted`` asks for it."""
        return hasattr(self, "feature_names_in_")

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise _not_fitted(
                f"this {type(self).__name__} has learned nothing yet; call fit with a tally"
            )

    def __sklearn_tags__(self) -> Any:
        """Tags of scikit-learn 1.6 and later, which alone calls this."""
        tags = import_module("sklearn.utils")
        return tags.Tags(
            estimator_type="classifier",
            target_tags=tags.TargetTags(required=False),
            classifier_tags=tags.ClassifierTags(),
            input_tags=tags.InputTags(allow_nan=True, categorical=True),
        )


class NotFitted(QueryError, AttributeError):
    """A learner is used before ``fit``."""


def _not_fitted(words: str) -> NotFitted:
    """The error for a learner without ``fit``; scikit-learn's own, too, if that is loaded."""
    errors = sys.modules.get("sklearn.exceptions")
    if errors is None:
        return NotFitted(words)
    both: type[NotFitted] = type("NotFitted", (NotFitted, errors.NotFittedError), {})
    return both(words)
