"""Arguments of C functions that record operations, and their results."""
import ctypes
from typing import Any, Dict, List, Optional, Sequence, Tuple

from . import _dtypes
from ._errors import InvalidArgument
from ._library import LIB, create
from ._scopes import LOCAL, current, engine, raise_failure

_Array: Any = None
_wrap: Any = None


def set_array(array: Any, wrap: Any) -> None:
    global _Array, _wrap
    _Array, _wrap = array, wrap


SCOPE = object()  # stands for the scope of the call


class Inner:
    """A scope of C for one call, whose intermediate arrays end with it."""

    __slots__ = ("outer", "handle")

    def __enter__(self) -> "Inner":
        self.outer = current().handle
        self.handle = create(LIB.nabla_scope_create, engine())
        return self

    def __exit__(self, *_: Any) -> None:
        LIB.nabla_scope_end(self.handle)

    def given(self, arguments: Tuple[Any, ...]) -> List[Any]:
        return [self.handle if a is SCOPE else a for a in arguments]

    def keep(self, pointer: Optional[int]) -> None:
        """Hands a new array to the scope around."""
        if pointer:
            LIB.nabla_keep(pointer, self.outer)


class Recording:
    """One call. It holds what the call's pointers point to."""

    __slots__ = ("held", "keep", "is_traced")

    def __init__(self) -> None:
        current()  # this thread has a scope
        self.held: List[Any] = []
        self.keep: Tuple[Any, ...] = ()

    def array(self, value: Any) -> int:
        if type(value) is not _Array:
            from .arrays import asarray
            value = asarray(value)
        self.held.append(value)
        if value._keep:
            self.keep += tuple(k for k in value._keep if k not in self.keep)
            keeps = LOCAL.scopes[-1].keeps
            if keeps is not None:  # a traced function captures it
                keeps.extend(value._keep)
        return value._pointer

    def optional(self, value: Any) -> int:
        return LIB.nabla_none() if value is None else self.array(value)

    def scope(self) -> Any:
        return SCOPE

    def hold(self, value: Any) -> int:
        self.held.append(value)
        return ctypes.addressof(value)

    def values(self, value: Any, count: Optional[int] = None) -> Any:
        """A list of numbers; None is NULL. A size that is None, of a named dimension,
        cannot be given on."""
        if value is None:
            return None
        data = [value] if isinstance(value, int) else list(value)
        if count is not None and len(data) != count:
            raise InvalidArgument("a list of %d numbers where there are %d" % (
                len(data), count))
        if any(d is None for d in data):
            raise InvalidArgument("a size that is not known while a function is traced: "
                                  "-1 in reshape() stands for one")
        return self.hold((ctypes.c_int64 * max(len(data), 1))(*data))

    def list(self, value: Any) -> Tuple[int, Any]:
        """The count and the numbers; None is an empty list."""
        if value is None:
            return 0, None
        data = [value] if isinstance(value, int) else list(value)
        return len(data), self.values(data)

    def arrays(self, value: Sequence[Any]) -> Tuple[int, Any]:
        pointers = [self.array(v) for v in value]
        return len(pointers), self.hold(
            (ctypes.c_void_p * max(len(pointers), 1))(*pointers))

    def dtype(self, value: Any) -> int:
        return _dtypes.to_c(value)

    def kind(self, table: Dict[str, int], value: str) -> int:
        if value not in table:
            raise InvalidArgument("a kind is one of %s, not %r" % (", ".join(table),
                                                                   value))
        return table[value]

    def options(self, structure: Any, counts: Dict[str, str], **values: Any) -> int:
        """A structure with members of Python values; lists set their counts."""
        out = structure()
        fields = dict(structure._fields_)
        if "struct_size" in fields:
            out.struct_size = ctypes.sizeof(structure)
        for name, value in values.items():
            if value is None:
                continue
            if fields[name] is ctypes.c_void_p:
                data = list(value)
                setattr(out, name, self.values(data))
                for count, of in counts.items():
                    if of == name:
                        setattr(out, count, len(data))
            else:
                setattr(out, name, value)
        return self.hold(out)

    def storage(self, encoding: str, block: Any, scale: Any, zero_point: bool,
                shape: Any) -> int:
        from .formats import to_storage
        return self.hold(to_storage(encoding, block, scale, zero_point, shape))

    def out(self, count: int) -> Any:
        return self.hold((ctypes.c_void_p * max(count, 1))())

    def one(self, function: Any, *arguments: Any) -> Any:
        """Calls a function that gives an array."""
        with Inner() as inner:
            pointer = function(*inner.given(arguments))
            inner.keep(pointer)
        return self._wrapped(pointer)

    def all(self, count: int, function: Any, *arguments: Any) -> List[Any]:
        """Calls a function that writes arrays to the last out()."""
        table = self.held[-1]
        with Inner() as inner:
            function(*inner.given(arguments))
            for i in range(count):
                inner.keep(table[i])
        if not all(table[i] for i in range(count)):
            raise_failure()
        return [self._wrapped(table[i]) for i in range(count)]

    def _wrapped(self, pointer: Optional[int]) -> Any:
        for value in self.held:  # some give an operand as it is
            if type(value) is _Array and value._pointer == pointer:
                return value
        return _wrap(pointer, self.keep)
