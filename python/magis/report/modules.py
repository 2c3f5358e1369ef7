"""Module paths, grouped so that a table of them stays short and still says something."""

import re
from collections.abc import Callable, Iterable

NO_MODULE = "(outside any module)"

_NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)|^\d+(?=\.|$)")


def without_layer_number(module: str) -> str:
    """`encoder.layer.3.mlp` as `encoder.layer.*.mlp`: one name for one place in every layer."""
    return _NUMBER.sub("*", module)


def grouping(modules: Iterable[str], most: int) -> Callable[[str], str]:
    """The finest grouping of `modules` into at most `most` groups, as a function of the path.

    Candidates cut the path at some depth, with the numbers of layers kept or starred. Where two
    give the same number of groups the one that keeps the numbers wins. If even the first component
    alone gives too many, it is used all the same: the caller sums up what is left over.
    """
    paths = sorted(set(modules))
    deepest = max((path.count(".") + 1 for path in paths), default=1)
    best = _cut(1, star=False)
    best_count = 0
    for star in (False, True):
        for depth in range(1, deepest + 1):
            candidate = _cut(depth, star=star)
            count = len({candidate(path) for path in paths})
            if best_count < count <= most:
                best, best_count = candidate, count
    return best


def _cut(depth: int, *, star: bool) -> Callable[[str], str]:
    def group(module: str) -> str:
        if not module:
            return NO_MODULE
        path = without_layer_number(module) if star else module
        return ".".join(path.split(".")[:depth])

    return group
