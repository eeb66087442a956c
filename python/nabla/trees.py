"""Trees: arrays in dictionaries, lists, tuples and dataclasses."""
import ctypes
import dataclasses
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import numpy as np

from . import _c
from ._errors import InvalidArgument
from ._library import LIB, byref, to_path
from ._scopes import attempt, current
from .arrays import Array, asarray, wrap
from .models import Model, Weight

# The structure of a tree: nested tuples, which are equal for equal structures.
Structure = Tuple[Any, ...]
LEAF, NONE = ("leaf",), ("none",)
COUNTED = ("leaf", "counted")  # a result that is not of floats, which has no tangent


def is_leaf(value: Any) -> bool:
    return isinstance(value, (Array, Weight, np.ndarray, np.generic)) or \
        isinstance(value, (int, float)) and not isinstance(value, bool)


def flatten(tree: Any) -> Tuple[List[Any], Structure]:
    """The leaves, in order, and the structure. Leaves are arrays and numbers; a
    dictionary's are in the order of its keys. Everything else that can be hashed, such
    as texts and truth values, belongs to the structure."""
    leaves: List[Any] = []
    return leaves, _flatten(tree, leaves, 0)


def _flatten(tree: Any, leaves: List[Any], depth: int) -> Structure:
    if depth > _c.TREE_MAX_DEPTH:
        raise InvalidArgument("a tree deeper than %d" % _c.TREE_MAX_DEPTH)
    if isinstance(tree, Array) or is_leaf(tree):
        leaves.append(tree)
        return LEAF
    if tree is None:
        return NONE
    if isinstance(tree, dict):
        if not all(isinstance(key, str) for key in tree):
            raise InvalidArgument("keys of a tree are texts")
        keys = tuple(sorted(tree))
        return ("fields", dict, keys,
                tuple(_flatten(tree[key], leaves, depth + 1) for key in keys))
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return ("fields", type(tree), tree._fields,
                tuple(_flatten(value, leaves, depth + 1) for value in tree))
    if isinstance(tree, (list, tuple)):
        return ("items", type(tree),
                tuple(_flatten(value, leaves, depth + 1) for value in tree))
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        names = tuple(field.name for field in dataclasses.fields(tree))
        return ("fields", type(tree), names, tuple(
            _flatten(getattr(tree, name), leaves, depth + 1) for name in names))
    try:
        hash(tree)
    except TypeError:
        raise TypeError("%r is no array, and no value that may be a part of a tree" %
                        type(tree).__name__) from None
    return ("static", type(tree), tree)


def unflatten(structure: Structure, leaves: List[Any]) -> Any:
    """The tree of a structure with these leaves."""
    rest = iter(leaves)
    out = _unflatten(structure, rest)
    if next(rest, rest) is not rest:
        raise InvalidArgument("more leaves than the structure has")
    return out


def _unflatten(structure: Structure, leaves: Any) -> Any:
    kind = structure[0]
    if kind == "leaf":
        try:
            return next(leaves)
        except StopIteration:
            raise InvalidArgument("fewer leaves than the structure has") from None
    if kind == "none":
        return None
    if kind == "static":
        return structure[2]
    if kind == "items":
        return structure[1]([_unflatten(s, leaves) for s in structure[2]])
    _, type_, names, children = structure
    values = {name: _unflatten(s, leaves) for name, s in zip(names, children)}
    if type_ is dict:
        return values
    if issubclass(type_, tuple):
        return type_(**values)
    out = object.__new__(type_)  # as it was, without its __init__
    for name, value in values.items():
        object.__setattr__(out, name, value)
    return out


def tree_map(change: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """A tree of what `change` gives for each leaf, and those of other trees of the same
    structure."""
    leaves, structure = flatten(tree)
    columns = [leaves]
    for other in others:
        more, its = flatten(other)
        if its != structure:
            raise InvalidArgument("the trees have different structures")
        columns.append(more)
    return unflatten(structure, [change(*row) for row in zip(*columns)])


def leaves_of(tree: Any) -> List[Any]:
    """The leaves of a tree, in order."""
    return flatten(tree)[0]


def names_of(tree: Any) -> List[str]:
    """The names of the leaves: "layers.2.w"."""
    return structure_names(flatten(tree)[1])


def structure_names(structure: Structure) -> List[str]:
    names: List[str] = []
    _names(structure, "", names)
    return names


def _names(structure: Structure, prefix: str, out: List[str]) -> None:
    if structure[0] == "leaf":
        out.append(prefix)
    if structure[0] in ("items", "fields"):
        names = structure[2] if structure[0] == "fields" else \
            tuple(str(i) for i in range(len(structure[2])))
        for name, inner in zip(names, structure[-1]):
            _names(inner, "%s.%s" % (prefix, name) if prefix else name, out)


def opened(structure: Optional[Structure]) -> Structure:
    """A structure which a body gives, so that C takes any; None: it is not known yet."""
    return ("open", structure)


def closed(structure: Structure) -> Structure:
    """A structure without what opened() put there."""
    if structure[0] == "open":
        return closed(structure[1])
    if structure[0] in ("items", "fields"):
        return structure[:-1] + (tuple(closed(child) for child in structure[-1]),)
    return structure


def with_kinds(structure: Structure, leaves: Iterator[Any]) -> Structure:
    """A structure of LEAF, with COUNTED for arrays that are not of floats."""
    if structure == LEAF:
        return LEAF if next(leaves).dtype.startswith(("f", "bf")) else COUNTED
    if structure[0] in ("items", "fields"):
        return structure[:-1] + (tuple([with_kinds(s, leaves) for s in structure[-1]]),)
    return structure


def tangents_of(structure: Structure) -> Structure:
    """The structure of the tangents of results."""
    if structure == COUNTED:
        return NONE
    if structure[0] in ("items", "fields"):
        return structure[:-1] + (tuple(map(tangents_of, structure[-1])),)
    return structure


def is_settled(structure: Optional[Structure]) -> bool:
    """Whether all open places have a structure."""
    if structure is None or structure[0] == "open":
        return structure is not None and is_settled(structure[1])
    return structure[0] not in ("items", "fields") or all(map(is_settled, structure[-1]))


class CTree:
    """A nabla_tree of a structure, and the places of its leaves. `static` is a number
    that becomes a part of the structure of fields, or of the first item of a list,
    without a leaf."""

    def __init__(self, structure: Structure, static: int = -1):
        self.held: List[Any] = []
        self.places: List[Any] = []
        self.opens: List[Any] = []
        self.root = _c.nabla_tree()
        self._fill(self.root, structure, static)
        self.count = len(self.places)

    def _fill(self, tree: Any, structure: Structure, static: int = -1) -> None:
        kind = structure[0]
        if kind == "leaf":
            tree.kind = _c.TREE_ARRAY
            self.places.append(tree)
        elif kind == "open":
            tree.kind = _c.TREE_OPEN
            self.opens.append(tree)
            if structure[1] is not None:
                item = _c.nabla_tree()
                self.held.append(item)
                tree.items = ctypes.addressof(item)
                self._fill(item, structure[1])
        elif kind in ("items", "fields"):
            children = structure[-1]
            inner = static if kind == "items" else -1
            static = -1 if kind == "items" else static
            count = len(children) + (static >= 0)
            items = (_c.nabla_tree * max(count, 1))()
            self.held.append(items)
            tree.kind = _c.TREE_FIELDS if kind == "fields" else _c.TREE_LIST
            tree.count, tree.items = count, ctypes.addressof(items)
            for item, child in zip(items, children):
                self._fill(item, child, inner)
                inner = -1
            if static >= 0:
                value = ctypes.c_int64(static)
                self.held.append(value)
                items[count - 1].kind, items[count - 1].count = _c.TREE_STATIC, 8
                items[count - 1].data = ctypes.addressof(value)
            if kind == "fields":
                names = [n.encode() for n in structure[2]] + [b"static:structure"]
                texts = (ctypes.c_char_p * len(names))(*names)
                self.held.append(texts)
                tree.names = ctypes.addressof(texts)
        else:
            tree.kind = _c.TREE_NONE

    def put(self, pointers: List[int]) -> None:
        for place, pointer in zip(self.places, pointers):
            place.array = pointer

    def take(self) -> List[int]:
        return [place.array for place in self.places]


def save(tree: Any, path: Any, force: bool = False) -> None:
    """Writes the leaves of a tree to a .safetensors file, by their names; packed ones
    stay packed. The file stands under its name when it is complete."""
    leaves, structure = flatten(tree)
    if structure == LEAF:
        raise InvalidArgument("the only leaf of a tree has no name: save a dictionary")
    c_tree = CTree(structure)
    arrays = [asarray(leaf) for leaf in leaves]
    c_tree.put([a._pointer for a in arrays])
    attempt(LIB.nabla_tree_write, byref(c_tree.root), to_path(path), int(force), None)


def load(path: Any, like: Any) -> Any:
    """Reads a tree like `like` from a file or folder; leaves that are arrays say dtype
    and shape, and whether a leaf is packed."""
    leaves, structure = flatten(like)
    c_tree = CTree(structure)
    arrays = [asarray(leaf) for leaf in leaves]
    c_tree.put([a._pointer for a in arrays])
    attempt(LIB.nabla_tree_read, current().handle, to_path(path), None,
            byref(c_tree.root))
    return unflatten(structure, [wrap(pointer) for pointer in c_tree.take()])


def load_dict(path: Any) -> Dict[str, Array]:
    """All tensors of a file or folder as arrays, by name; packed ones stay packed, and
    none is copied."""
    model = Model(path)
    return {name: asarray(model[name]) for name in model.keys()}
