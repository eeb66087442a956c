"""Writes _operations.py: a Python function for each row of lib/array/operations.def,
with the parameters and the comment of its declaration in nabla/array.h.

The words of a declaration say how a parameter is passed; the tables below say what a
declaration does not: names that Python has taken, parameters that may be left out.
"""
import os
import re
import textwrap

RENAMED = {"and": "and_", "or": "or_", "not": "not_"}
PARAMETERS = {"from": "source", "to": "destination"}
# Operands that may be absent: nabla_none() stands for them.
OPTIONAL = {"bias", "positions", "mask", "keys"}
OPTIONAL_WEIGHT = {"rms_norm", "layer_norm"}
# Values of parameters that may be left out, by name or by function and name.
DEFAULTS = {
    "dims": "None", "keep_dims": "False", "dtype": '"f32"', "strides": "None",
    "padding": "None", "interior": "None", "diagonal": "0", "causal": "False",
    "scale": "0.0", "eps": "1e-05", "periodic": "True", "permutation": "None",
    "softmax.dim": "-1", "log_softmax.dim": "-1", "concatenate.dim": "0",
    "stack.dim": "0", "split.dim": "0", "chunk.dim": "0", "unbind.dim": "0",
    "take.dim": "0", "rope.dim": "1", "argmax.dim": "-1", "argmin.dim": "-1",
    "logsumexp.dim": "-1", "cumsum.dim": "-1", "arange.step": "1.0",
    "flatten.first": "0", "flatten.last": "-1", "scatter.kind": '"set"',
    "at.kind": '"set"', "iota.dim": "0", "reduce_window.kind": '"max"',
    "broadcast_in_dim.dims": "", "convert.dtype": ""}
# Counts of lists of structures; the structure's other lists have one length.
COUNTS = {
    "nabla_dot_dims": {"batching_count": "x_batching",
                       "contracting_count": "x_contracting"},
    "nabla_gather_dims": {"offset_count": "offset_dims", "map_count": "index_map",
                          "collapsed_count": "collapsed_dims",
                          "batching_count": "x_batching"},
    "nabla_window_options": {"count": "sizes"}}
# How many results a function with `out` writes, where it has no count.
RESULTS = {"minmax": "2"}
# A count that follows from an operand.
FOLLOWS = {"unbind": "x.shape[dim]"}
TYPES = {"int64_t": "int", "int": "bool", "double": "float"}


def rows(source):
    with open(os.path.join(source, "lib/array/operations.def"),
              encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
    return [name for kind, name in re.findall(r"^([A-Z_]+)\((\w+)", text, re.M)
            if kind != "WITHOUT"]


class Writer:
    """The text of one function."""

    def __init__(self, headers, name):
        self.headers, self.name = headers, name
        self.function = headers.functions["nabla_" + name]
        self.parameters, self.keywords, self.arguments = [], [], []
        self.before, self.results = [], None

    def default(self, name):
        return DEFAULTS.get("%s.%s" % (self.name, name), DEFAULTS.get(name, ""))

    def parameter(self, name, kind, default=None, keyword=False):
        default = self.default(name) if default is None else default
        text = "%s: %s%s" % (name, kind, " = " + default if default else "")
        (self.keywords if keyword else self.parameters).append(text)

    def operand(self, name):
        is_optional = name in OPTIONAL or name == "weight" and \
            self.name in OPTIONAL_WEIGHT
        self.parameter(name, "Optional[ArrayLike]" if is_optional else "ArrayLike",
                       "None" if is_optional else "")
        self.arguments.append("r.%s(%s)" % ("optional" if is_optional else "array",
                                            name))

    def structure(self, name, kind):
        counts = COUNTS.get(kind, {})
        given = []
        for member in self.headers.structs[kind]:
            if member.name == "struct_size" or member.name in counts:
                continue
            if member.type.pointers:
                self.parameter(member.name, "Optional[Ints]", "None", True)
            else:
                plain = {"int64_t": ("int", "0"), "double": ("float", "0.0"),
                         "int": ("bool", "False")}[member.type.name]
                self.parameter(member.name, plain[0], plain[1], True)
            given.append("%s=%s" % (member.name, member.name))
        self.arguments.append("r.options(_c.%s, %r, %s)" % (kind, counts,
                                                            ", ".join(given)))

    def storage(self):
        for text in ("encoding: str", "block: Union[int, str, None] = None",
                     "scale: Optional[str] = None", "zero_point: bool = False"):
            self.parameters.append(text)
        shape = "shape"
        if self.name == "quantize":
            self.before.append("x = asarray(x)")
            shape = "x.shape"
        self.arguments.append("r.storage(encoding, block, scale, zero_point, %s)" %
                              shape)

    def lists(self, count, member):
        """A count with what follows it; the number of parameters that were used."""
        type_ = member.type
        if type_.name == "int64_t" and type_.pointers == 1:
            self.parameter(member.name, "Optional[Ints]" if
                           self.default(member.name) == "None" else "Ints")
            self.arguments.append("*r.list(%s)" % member.name)
            return 2
        if type_.name == "nabla_array" and type_.pointers == 2 and type_.is_const:
            self.parameter(member.name, "Sequence[ArrayLike]", "")
            self.arguments.append("*r.arrays(%s)" % member.name)
            return 2
        follows = FOLLOWS.get(self.name)  # a count of results
        if follows:
            self.before.append("x = asarray(x)")
            self.before.append("count = _known(%s)" % follows)
        else:
            self.parameter("count", "int", "")
        self.arguments.append("count")
        return 1

    def read(self):
        given = [p._replace(name=PARAMETERS.get(p.name, p.name))
                 for p in self.function.parameters]
        i = 0
        while i < len(given):
            member, type_ = given[i], given[i].type
            used = 1
            if type_.name == "nabla_scope":
                self.arguments.append("r.scope()")
            elif type_.name == "uint32_t" and i + 1 < len(given) and \
                    not type_.pointers and member.name != "rank":
                used = self.lists(member, given[i + 1])
            elif member.name == "rank":
                self.parameter(given[i + 1].name, "Ints", "")
                self.arguments.append("*r.list(%s)" % given[i + 1].name)
                used = 2
            elif type_.name == "nabla_array" and type_.pointers == 1:
                self.operand(member.name)
            elif type_.name == "nabla_array" and member.name == "out":
                self.results = RESULTS.get(self.name) or (
                    "_length(sizes)" if self.name == "split" else "count")
                self.arguments.append("r.out(%s)" % self.results)
            elif type_.name == "nabla_array":  # arrays whose count another list has
                self.parameter(member.name, "Sequence[ArrayLike]", "")
                self.arguments.append("r.arrays(%s)[1]" % member.name)
            elif type_.name == "nabla_storage":
                self.storage()
            elif type_.name in self.headers.enums and type_.name != "nabla_dtype":
                self.parameter(member.name, "str")
                self.arguments.append("r.kind(%s, %s)" % (type_.name.upper(),
                                                          member.name))
            elif type_.name == "nabla_dtype":
                self.parameter(member.name, "DType")
                self.arguments.append("r.dtype(%s)" % member.name)
            elif type_.name in self.headers.structs:
                self.structure(member.name, type_.name)
            elif type_.pointers:  # as many numbers as a list before
                self.parameter(member.name, "Optional[Ints]" if
                               self.default(member.name) else "Ints")
                self.arguments.append("r.values(%s, %s)" % (member.name, self.length()))
            else:
                self.parameter(member.name, TYPES[type_.name])
                convert = {"int": "int(%s)", "double": "float(%s)"}.get(type_.name,
                                                                        "%s")
                self.arguments.append(convert % member.name)
            i += used

    def length(self):
        for text in self.arguments:
            found = re.match(r"\*r\.(list|arrays)\((\w+)\)", text)
            if found:
                return "_length(%s)" % found[2]
        raise SystemExit("nabla_%s: a list without a count" % self.name)

    def signature(self):
        required = [p for p in self.parameters if " = " not in p]
        optional = [p for p in self.parameters if " = " in p]
        # a shape comes before its dtype, as in NumPy
        optional.sort(key=lambda p: p.startswith("dtype"))
        parts = required + optional
        parts += ["*"] + self.keywords if self.keywords else []
        return parts

    def text(self):
        self.read()
        name = RENAMED.get(self.name, self.name)
        result = "List[Array]" if self.results else "Array"
        lines = ["def %s(%s) -> %s:" % (name, ", ".join(self.signature()), result)]
        told = docstring(self.function.comment)
        lines.append('    """%s"""' % told.replace("\n", "\n    "))
        lines += ["    " + line for line in self.before]
        lines.append("    r = Recording()")
        call = ", ".join(["LIB.nabla_%s" % self.name] + self.arguments)
        if self.results:
            lines += ["    arguments = (%s,)" % ", ".join(self.arguments),
                      "    return r.all(%s, LIB.nabla_%s, *arguments)" % (
                          self.results, self.name)]
        else:
            lines.append("    return r.one(%s)" % call)
        return "\n".join(lines)

    def method(self):
        """The same as a method of Array, whose first parameter is `self`."""
        parts = self.signature()
        if not parts or parts[0] != "x: ArrayLike":
            return None
        name = RENAMED.get(self.name, self.name)
        result = "List['Array']" if self.results else "'Array'"
        passed = ["self"]
        after_star = False
        for part in parts[1:]:
            if part == "*":
                after_star = True
                continue
            word = part.split(":")[0]
            passed.append("%s=%s" % (word, word) if after_star else word)
        lines = ["    def %s(%s) -> %s:" % (name, ", ".join(["self"] + parts[1:]),
                                          result),
                 '        """%s"""' % docstring(self.function.comment).replace(
                     "\n", "\n        "),
                 "        return %s(%s)  # type: ignore[arg-type]" % (
                     name, ", ".join(passed))]
        return "\n".join(lines)


OPERATORS = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "mod": "mod",
    "pow": "pow", "matmul": "matmul", "and": "and_", "or": "or_", "xor": "xor",
    "floordiv": "_floor_divide"}
COMPARISONS = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal",
               "gt": "greater", "ge": "greater_equal"}


def operators():
    """Python's operators, as methods."""
    lines = []
    for name, function in list(OPERATORS.items()) + list(COMPARISONS.items()):
        override = "  # type: ignore[override]" if name in ("eq", "ne") else ""
        both = [("__%s__" % name, "self, other")]
        if name in OPERATORS:
            both.append(("__r%s__" % name, "other, self"))
        for method, order in both:
            lines += ["    def %s(self, other: ArrayLike) -> 'Array':%s" % (method,
                                                                         override),
                      "        if not _is_operand(other):",
                      "            return NotImplemented",
                      "        return %s(%s)  # type: ignore[arg-type]" % (function,
                                                                         order), ""]
    return lines


def docstring(comment):
    text = " ".join(comment.split()) or "As its name says."
    text = re.sub(r"\bNULL\b", "None", text)
    text = text.replace("nabla_none()", "None").replace("`", "").replace("\\", "")
    text = re.sub(r"\bnabla_(\w+)", r"\1", text).replace("NABLA_ALL_DIMS", "None")
    return textwrap.fill(text, 84)


HEAD = '''"""Operations: a function for each row of lib/array/operations.def. Made by
python/generate."""
from typing import Any, List, Optional, Sequence, Union, TYPE_CHECKING

import numpy as np

from . import _c
from ._errors import InvalidArgument
from ._library import LIB
from ._recording import Recording

if TYPE_CHECKING:
    from .arrays import Array, ArrayLike
else:
    Array = ArrayLike = Any
Ints = Union[int, Sequence[int]]
DType = Union[str, type, "np.dtype[Any]"]


def asarray(value: Any) -> "Array":
    from .arrays import asarray as make
    return make(value)


def _is_operand(value: Any) -> bool:
    from .arrays import is_arraylike
    return is_arraylike(value)


def _floor_divide(x: "ArrayLike", y: "ArrayLike") -> "Array":
    from .arrays import floor_divide
    return floor_divide(x, y)


def _length(value: Any) -> int:
    return 1 if isinstance(value, int) else len(value)


def _known(size: Optional[int]) -> int:
    if size is None:
        raise InvalidArgument("a named dimension has no known number of parts")
    return size

'''


def text(headers, source):
    names = rows(source)
    kinds = sorted({p.type.name for n in names
                    for p in headers.functions["nabla_" + n].parameters
                    if p.type.name in headers.enums and p.type.name != "nabla_dtype"})
    parts = [HEAD]
    for kind in kinds:
        table = {}
        for name, number in headers.enums[kind]:
            table[name.rsplit("_", 1)[1].lower()] = number
        parts.append("%s = %r" % (kind.upper(), table))
    methods = []
    for name in names:
        writer = Writer(headers, name)
        parts += ["", "", writer.text()]
        method = writer.method()
        if method:
            methods += [method, ""]
    parts += ["", "", "class Methods:", '    """The operations as methods of an '
              'array."""', "", "    __slots__ = ()", ""] + methods + operators()
    return "\n".join(parts) + "\n"


def imports(source):
    """The list that the package imports from _operations."""
    return textwrap.fill(", ".join(RENAMED.get(n, n) for n in rows(source)), 84,
                         initial_indent="    ", subsequent_indent="    ").lstrip()
