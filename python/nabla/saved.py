"""Functions in files: what Python keeps of them, and functions that were loaded."""
import ctypes
import errno
import functools
import importlib
import inspect
import json
import os
import secrets
import threading
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from . import _c
from ._errors import Exists, InputOutput, InvalidArgument, Unsupported
from ._library import LIB, Handle, byref, call, create, new_diag, to_path
from ._scopes import compile_options, engine
from .functions import Function, split_word, _Trace
from .trees import COUNTED, LEAF, NONE, CTree, Structure, closed, flatten

_KINDS = ("POSITIONAL_ONLY", "POSITIONAL_OR_KEYWORD", "VAR_POSITIONAL", "KEYWORD_ONLY")
_LEAVES = {structure[-1]: structure for structure in (LEAF, COUNTED, NONE)}


# ---- structures as JSON ----

def _value(value: Any) -> Any:
    """A value of a structure."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) is tuple:
        return {"tuple": [_value(item) for item in value]}
    raise Unsupported("a file cannot keep the value %r of a tree: it is no text, number, "
                      "truth value or tuple of these" % (value,))


def _class(type_: type) -> str:
    if "<locals>" in type_.__qualname__:
        raise Unsupported("a file cannot keep %s, which is defined in a function" %
                          type_.__qualname__)
    return "%s:%s" % (type_.__module__, type_.__qualname__)


def _write(structure: Structure) -> Any:
    kind = structure[0]
    if kind in ("leaf", "none"):
        return structure[-1]  # "counted", for COUNTED
    if kind == "static":
        return {"static": _value(structure[2])}
    children = [_write(child) for child in structure[-1]]
    type_ = structure[1]
    if type_ in (list, tuple):
        return {type_.__name__: children}
    out = {"dict": list(structure[2])} if type_ is dict else \
        {"class": _class(type_), "names": list(structure[2]) if kind == "fields" else None}
    return dict(out, children=children)


def _read_value(value: Any) -> Any:
    return tuple(map(_read_value, value["tuple"])) if isinstance(value, dict) else value


def _read(text: Any) -> Structure:
    if isinstance(text, str):
        return _LEAVES[text]
    if "static" in text:
        value = _read_value(text["static"])
        return ("static", type(value), value)
    for type_ in (list, tuple):
        if type_.__name__ in text:
            return ("items", type_, tuple(map(_read, text[type_.__name__])))
    children = tuple(map(_read, text["children"]))
    if "dict" in text:
        return ("fields", dict, tuple(text["dict"]), children)
    module, _, name = text["class"].partition(":")
    found = functools.reduce(getattr, name.split("."), importlib.import_module(module))
    if text["names"] is None:
        return ("items", found, children)
    return ("fields", found, tuple(text["names"]), children)


def _common(structures: Sequence[Structure]) -> Optional[Structure]:
    """The structure that all have, where a leaf is COUNTED that is so in all; None if they
    differ."""
    first = structures[0]
    if all(structure == first for structure in structures):
        return first
    if all(structure[0] == "leaf" for structure in structures):
        return LEAF
    if first[0] not in ("items", "fields") or any(
            structure[:-1] != first[:-1] or len(structure[-1]) != len(first[-1])
            for structure in structures):
        return None
    children = tuple(map(_common, zip(*[structure[-1] for structure in structures])))
    return None if None in children else first[:-1] + (children,)


# ---- notes ----

def _parameter(parameter: inspect.Parameter) -> List[Any]:
    out = [parameter.name, _KINDS.index(parameter.kind.name)]
    if parameter.default is not parameter.empty:
        out.append(_value(parameter.default))
    return out


def note_of(function: Function) -> bytes:
    """What a file keeps of a function for Python: its parameters, and the structures of
    arguments and results."""
    numbers = sorted(function._structures, key=function._structures.__getitem__)
    results = [[_write(structure), types, _write(closed(function._shown(structure, found)))]
               for (structure, types), found in function._results.items()]
    return json.dumps({
        "python": 1, "name": function._body.__name__, "word": function._word,
        "parameters": [_parameter(p) for p in function._signature.parameters.values()],
        "static": sorted(function._static), "structures": [_write(s) for s in numbers],
        "results": results, "dims": [[name, dim, text] for name, of in
                                     function._dims().items() for dim, text in of.items()],
        "donate": function._options[1], "states": function._options[2],
    }).encode()


def save_function(function: Function, path: Any, force: bool = False) -> None:
    """Function.save."""
    handle, note = function._started(), note_of(function)
    call(LIB.nabla_function_set_note, handle.value, len(note), note)
    call(LIB.nabla_function_save, handle.value, to_path(path), int(force))


# ---- programs ----

_EMISSIONS = (".mlir", ".ll", ".s", ".o", ".so")  # in the order of C


def emit_function(function: Function, path: Any, args: Tuple[Any, ...],
                  kwargs: Mapping[str, Any], captured: Any, force: bool,
                  options: Dict[str, Any]) -> None:
    """Function.emit."""
    if not isinstance(args, tuple):
        raise TypeError("emit() takes the arguments of a call as a tuple: emit(path, (x,)), "
                        "not %r" % type(args).__name__)
    if not isinstance(kwargs, Mapping):
        raise TypeError("emit() takes arguments by name as a dictionary, not %r" %
                        type(kwargs).__name__)
    name = os.fsdecode(path)
    suffix = os.path.splitext(name)[1]
    if suffix not in _EMISSIONS:
        raise InvalidArgument("%s ends in none of %s" % (name, ", ".join(_EMISSIONS)))
    if os.path.exists(name) and not force:
        raise Exists("%s exists: force=True replaces it" % name)
    folder = os.path.dirname(name)
    if folder and not os.path.isdir(folder):
        raise InputOutput("%s: there is no folder %s" % (name, folder))
    if captured is not None and os.path.realpath(to_path(captured)) == \
            os.path.realpath(to_path(name)):
        raise InvalidArgument("%s is the program: captured names another file" % name)
    handle = function._started()
    compile_ = compile_options(options) if options else None
    how = _c.nabla_function_emit_options(
        struct_size=ctypes.sizeof(_c.nabla_function_emit_options), force=int(force),
        compile=ctypes.addressof(compile_) if compile_ else None,
        captured=to_path(captured) if captured is not None else None)
    blob = _c.nabla_blob()
    sink = LIB.nabla_blob_sink(byref(blob))

    def emit(out: CTree) -> Any:
        diag = new_diag()
        how.results = ctypes.addressof(out.root)
        LIB.nabla_function_emit(handle.value, _EMISSIONS.index(suffix), byref(how),
                                byref(sink), byref(diag))
        return diag

    try:
        if args or kwargs:
            _arrays, structure, tree, body, key = function._prepared(args, dict(kwargs))
            how.arguments = ctypes.addressof(tree.root)
            function._made(structure, body, key, emit, False)
        else:
            call(LIB.nabla_function_emit, handle.value, _EMISSIONS.index(suffix),
                 byref(how), byref(sink))
        _write_file(name, ctypes.string_at(blob.bytes, blob.size), force)
    finally:
        LIB.nabla_blob_release(byref(blob))


def _link(name: str, path: str) -> bool:
    """Whether the file has the other name too, which is new; False: it is new, but the
    file system has no links."""
    try:
        os.link(name, path)
        return True
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EMLINK, errno.EINVAL, errno.ENOSYS,
                               errno.EOPNOTSUPP):
            raise
    if os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
    return False


def _write_file(path: str, data: bytes, force: bool) -> None:
    """The file stands under its name when it is complete, and on the disk."""
    name = os.path.join(os.path.dirname(path), ".nabla-%s.tmp" % secrets.token_hex(8))
    temporary = None
    try:
        with open(name, "xb") as out:
            temporary = name
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        if force or not _link(name, path):
            os.replace(name, path)
            temporary = None
    except FileExistsError:
        raise Exists("%s exists: force=True replaces it" % path) from None
    except OSError as error:
        raise InputOutput("%s: cannot be written: %s" % (path, error.strerror)) from error
    finally:
        if temporary is not None:
            os.unlink(temporary)


# ---- loaded functions ----

def _unknown(name: str) -> Callable[..., Any]:
    def body(*args: Any, **kwargs: Any) -> Any:
        raise Unsupported("%s was loaded: there is no Python function" % name)

    body.__name__ = body.__qualname__ = name
    return body


class Loaded(Function):
    """A function that was loaded from a file: it is called, and has derivatives and
    batches, as the one that was saved, for the signatures that this had."""

    def __init__(self, path: Any, results: Any):
        self._handle = Handle(create(LIB.nabla_function_load, engine(), to_path(path)),
                              LIB.nabla_function_destroy)
        size = ctypes.c_size_t()
        at = LIB.nabla_function_borrow_note(self._handle.value, ctypes.byref(size))
        note = json.loads(ctypes.string_at(at, size.value)) if at else None
        self._named, self._trees, self._keeps = {}, {}, []
        self._first = threading.RLock()
        self._has_note = note is not None
        self._word = None
        self._static = frozenset()
        self._results, self._structures = {}, {}
        if note is None:  # of a program in C
            self._options = ({}, {}, {}, 0, 0)
            self._body = _unknown("main")
            self._signature = inspect.signature(lambda *arguments: None)
            self._only: Optional[Structure] = self._in_order() if results is None \
                else flatten(results)[1]
        else:
            self._take_note(note)
        functools.update_wrapper(self, self._body)
        self._simple = all(p.kind is p.POSITIONAL_OR_KEYWORD and p.default is p.empty
                           for p in self._signature.parameters.values())

    def _in_order(self) -> Structure:
        """The structure of results that a file has no note of: a tuple of them."""
        counts = set()
        for index in range(self.statistics.signatures):
            out = _c.nabla_function_signature(
                struct_size=ctypes.sizeof(_c.nabla_function_signature))
            call(LIB.nabla_function_describe, self._handle.value, index, byref(out))
            counts.add(out.result_count)
        if len(counts) > 1:
            raise InvalidArgument("signatures of the file have %s results: results= says "
                                  "which are meant" %
                                  " and ".join(map(str, sorted(counts))))
        count = counts.pop() if counts else 1
        return LEAF if count == 1 else ("items", tuple, (LEAF,) * count)

    def _take_note(self, note: Dict[str, Any]) -> None:
        dims: Dict[str, Dict[int, str]] = {}
        for name, dim, text in note["dims"]:
            dims.setdefault(name, {})[dim] = text
        self._options = (dims, note["donate"], note["states"], 0, 0)
        self._body, self._word = _unknown(note["name"]), note["word"]
        kinds = [getattr(inspect.Parameter, kind) for kind in _KINDS]
        self._signature = inspect.Signature([
            inspect.Parameter(p[0], kinds[p[1]],
                              default=_read_value(p[2]) if len(p) > 2
                              else inspect.Parameter.empty)
            for p in note["parameters"]])
        self._static = frozenset(note["static"])
        self._structures = {_read(s): i for i, s in enumerate(note["structures"])}
        for structure, types, results in note["results"]:
            key = (_read(structure), tuple(tuple(type_) for type_ in types))
            self._results[key] = _read(results)
        found = list(self._results.values())
        self._only = _common(found) if found else None

    def _create(self) -> Handle:
        raise NotImplementedError

    def _given(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]
               ) -> Tuple[List[Any], Structure]:
        if not self._has_note:
            leaves, structure = flatten(list(args))
            if kwargs:
                raise TypeError("a function that C saved has no names of arguments")
            return leaves, structure
        if self._word is None:
            return super()._given(args, kwargs)
        call = split_word(self._word, super()._fits, args, kwargs)
        if call is None:
            raise TypeError("%s needs the %s: behind all arguments, or by name, %s=" % (
                self._body.__name__, self._word, self._word))
        leaves, first = super()._given(*call[:2])
        more, second = flatten(call[2])
        return leaves + more, ("items", list, (first, second))

    def _fits(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> bool:
        if self._word is None:
            return super()._fits(args, kwargs)
        call = split_word(self._word, super()._fits, args, kwargs)
        return call is not None and super()._fits(*call[:2])

    def _is_loaded(self) -> bool:
        return True

    def _number(self, structure: Structure) -> int:
        return super()._number(structure) if self._has_note else -1

    def _numbered(self, structure: Structure) -> Structure:
        return structure if self._word is None else structure[2][0]

    def _traced(self, structure: Structure) -> _Trace:
        return _Trace(self._body, self._keeps)

    def _fixed(self) -> Optional[Structure]:
        if self._only is None:
            raise Unsupported("the results of %s have several structures: it is called, "
                              "but nothing is made from it" % self._body.__name__)
        return self._only

    def _expects(self, known: Optional[Structure]) -> Structure:
        # C says which signatures there are
        return known or self._only or next(iter(self._results.values()), LEAF)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Computes the results; while another function is traced, as a part of that."""
        return self._called(args, kwargs)

    def __repr__(self) -> str:
        return "<nabla.Function %s, loaded>" % self._body.__name__


def load_function(path: Any, results: Any = None) -> Function:
    """Reads a function that Function.save wrote. It is called as that one was, makes
    sessions, and grad(), vmap() and others make functions of it; a signature that was
    not saved is an error. A file is as trusted as code.

    results: of a file that a program in C wrote, which keeps no structure of results: a
    tree of the structure that they shall have, in order; by default a tuple of them, or
    the one that there is. Its arguments are given in order, as a list."""
    return Loaded(path, results)
