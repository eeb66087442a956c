"""Traced functions and control flow."""
import ctypes
import functools
import inspect
import threading
from typing import (Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence,
                    Tuple)

from . import _c
from ._errors import InvalidArgument
from ._library import LIB, LOCK, Handle, byref, call, create, new_diag
from ._recording import Inner
from ._scopes import KEPT, LOCAL, Scope, current, engine, raise_failure
from .arrays import Array, asarray, borrowed, wrap
from .programs import Session
from .trees import (LEAF, NONE, CTree, Structure, closed, flatten, opened,
                    structure_names, unflatten, with_kinds)

Dims = Mapping[str, Mapping[int, str]]


class FunctionStatistics(NamedTuple):
    """Counts since a function was made, and its present size."""

    hits: int
    misses: int         #: signatures that were traced
    evictions: int
    signatures: int
    bytes: int
    compile_ms: float


class _Trace:
    """A body that C calls back: what it is, and what came of it.

    `expected` is the structure of the results that C was told before it calls, mostly
    an open one, which the body gives. Where it gives another than a closed one, the
    call fails, and is made again with the one that was found."""

    def __init__(self, run: Callable[[List[Array]], Any], keeps: List[Any],
                 expected: Structure = LEAF):
        self.run = run
        self.keeps = keeps
        self.expected = expected
        self.found: Optional[Structure] = None
        self.kinds: Optional[Structure] = None  # the same, with what is not of floats
        self.is_other = False
        self.is_known = False
        self.like: Optional[_Trace] = None  # has to give the same structure
        self.out: Optional[CTree] = None  # where C puts the results
        self.held: List[CTree] = []  # trees at open places
        self.error: Optional[BaseException] = None

    def __call__(self, scope: int, arguments: int, results: int) -> None:
        inner = Scope(scope, True)
        inner.keeps = self.keeps
        LOCAL.scopes.append(inner)
        try:
            self._trace(inner, arguments, results)
        except BaseException as error:  # raised again behind the call of C
            self.error = error
        finally:
            inner.ended = True
            LOCAL.scopes.pop()

    def _trace(self, scope: Scope, arguments: int, results: int) -> None:
        leaves = [borrowed(pointer) for pointer in _leaves(arguments)]
        out, self.found = flatten(self.run(leaves))
        if self.like is not None and self.found != self.like.found:
            raise InvalidArgument("the parts of cond() give results of different "
                                  "structures")
        self.held = []
        self.is_other = not _open(_c.nabla_tree.from_address(results), self.expected,
                                  self.found, self.held)
        if self.is_other:
            if self.is_known:
                raise InvalidArgument("a body gives results of another structure than "
                                      "it has to")
            return
        if self.out is not None:  # C takes the trees over
            for place in self.out.opens:
                place.items = None
        arrays = [asarray(leaf) for leaf in out]
        self.kinds = with_kinds(self.found, iter(arrays))
        table = (ctypes.c_void_p * max(len(arrays), 1))(*[a._pointer for a in arrays])
        for array in arrays:
            if array._scope is scope:  # C takes them after this call
                array._scope = KEPT
        call(LIB.nabla_tree_unflatten, results, len(arrays), ctypes.addressof(table))


def _open(tree: Any, expected: Structure, found: Structure, held: List[CTree]) -> bool:
    """Gives the open places of a tree of C, of the structure `expected`, trees of the
    structures that were found; False where another one was."""
    if expected[0] == "open":
        held.append(CTree(found))
        tree.items = ctypes.addressof(held[-1].root)
        return True
    if expected[0] not in ("items", "fields"):
        return expected[0] == found[0] == "leaf" or expected == found
    if found[:-1] != expected[:-1] or len(found[-1]) != len(expected[-1]):
        return False
    items = (_c.nabla_tree * max(len(found[-1]), 1)).from_address(tree.items or 0) \
        if found[-1] else ()
    return all([_open(item, *pair, held)
                for item, pair in zip(items, zip(expected[-1], found[-1]))])


def _leaves(tree: int) -> List[int]:
    if not tree:
        return []
    count = ctypes.c_size_t()
    call(LIB.nabla_tree_flatten, tree, 0, None, byref(count))
    if not count.value:
        return []
    table = (ctypes.c_void_p * count.value)()
    call(LIB.nabla_tree_flatten, tree, count.value, ctypes.addressof(table),
         byref(count))
    return list(table)


def _enter(scope: int, arguments: int, results: int, which: Any) -> None:
    """The callback of C: it calls the body of a number among those of this thread's
    innermost call."""
    bodies = LOCAL.calls[-1]
    bodies[0](scope, arguments, results)


def _enter_second(scope: int, arguments: int, results: int, which: Any) -> None:
    LOCAL.calls[-1][1](scope, arguments, results)


_FIRST = _c.nabla_function_callback(_enter)
_SECOND = _c.nabla_function_callback(_enter_second)


def _attempt(bodies: Sequence[_Trace], run: Callable[[], Any],
             outs: Sequence[CTree]) -> bool:
    """Makes a call of C that traces bodies. False if it has to be made again, with the
    structure that was found."""
    LOCAL.calls.append(bodies)
    try:
        with Inner() as inner:
            diag = run()
            if not (diag is not None and diag.code):
                for pointer in [p for tree in outs for p in _taken_from(tree)]:
                    inner.keep(pointer)
    finally:
        LOCAL.calls.pop()
    for body in bodies:
        error, body.error = body.error, None
        if error is not None:
            LIB.nabla_scope_clear(LOCAL.scopes[-1].handle)
            raise error
    scope = LOCAL.scopes[-1]
    for body in bodies:
        if body.is_other and body.found is not None:
            LIB.nabla_scope_clear(scope.handle)
            body.expected, body.found, body.is_other = body.found, None, False
            return False
    if diag is not None and diag.code or LIB.nabla_scope_status(scope.handle, None):
        raise_failure(diag)
    return True


def _taken_from(tree: CTree) -> List[int]:
    return _leaves(ctypes.addressof(tree.root)) if tree.opens else tree.take()


def _collect(tree: CTree, structure: Structure, keep: Tuple[Any, ...],
             arguments: Sequence[Array] = ()) -> Any:
    pointers = _taken_from(tree)
    if not all(pointers):
        raise_failure()
    known = {a._pointer: a for a in arguments}  # what comes back as it is
    out = []
    for pointer in pointers:
        if pointer not in known:
            known[pointer] = wrap(pointer, keep)
        out.append(known[pointer])
    return unflatten(structure, out)


# ---- functions ----


def split_word(word: str, fits: Callable[..., bool], args: Tuple[Any, ...],
               kwargs: Dict[str, Any]) -> Optional[Tuple[Any, ...]]:
    """The arguments of a call, without the value that comes by the name `word` or as one
    argument more than `fits` takes, and that value; None if there is none."""
    if word in kwargs:
        rest = dict(kwargs)
        value = rest.pop(word)
        return args, rest, value
    if args and fits(args[:-1], kwargs) and not fits(args, kwargs):
        return args[:-1], kwargs, args[-1]
    return None


class Function:
    """A Python function that is traced once for each signature of its arguments, and
    runs as a compiled program afterwards. function() makes one."""

    def __init__(self, body: Callable[..., Any], *, dims: Optional[Dims] = None,
                 donate: Optional[Mapping[str, str]] = None,
                 states: Optional[Mapping[str, str]] = None,
                 static: Sequence[str] = (), max_signatures: int = 0,
                 max_traces: int = 0):
        functools.update_wrapper(self, body)
        self._body = body
        self._signature = inspect.signature(body)
        for parameter in self._signature.parameters.values():
            if parameter.kind is parameter.VAR_KEYWORD:
                raise InvalidArgument("%s has **%s: a function's arguments have names" %
                                      (body.__name__, parameter.name))
        names = set(self._signature.parameters)
        for name in static:
            if name not in names:
                raise InvalidArgument("%s has no parameter %r, which should be static" %
                                      (body.__name__, name))
        check_options(dims or {}, donate or {}, states or {})
        self._static = frozenset(static)
        self._options = (dims or {}, donate or {}, states or {}, max_signatures,
                         max_traces)
        self._handle: Optional[Handle] = None
        self._structures: Dict[Structure, int] = {}
        self._results: Dict[Any, Structure] = {}
        self._named: Dict[Structure, Any] = {}
        self._first = threading.RLock()
        self._trees: Dict[Structure, List[CTree]] = {}
        self._keeps: List[Any] = []
        self._simple = all(p.kind is p.POSITIONAL_OR_KEYWORD and p.default is p.empty
                           for p in self._signature.parameters.values())

    _word: Optional[str] = None  # of an argument behind those of the Python function

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    # ---- the function of C ----

    def _started(self) -> Handle:
        if self._handle is None:
            with LOCK:
                if self._handle is None:
                    self._handle = self._create()
        return self._handle

    def _create(self) -> Handle:
        how, _keep = c_options(self._options, _c_name(self._body.__name__))
        return Handle(create(LIB.nabla_function_create, engine(),
                             ctypes.cast(_FIRST, ctypes.c_void_p), byref(how)),
                      LIB.nabla_function_destroy)

    # ---- calls ----

    def _arguments(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]
                   ) -> Dict[str, Any]:
        if self._simple and not kwargs and \
                len(args) == len(self._signature.parameters):
            return dict(zip(self._signature.parameters, args))
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return dict(bound.arguments)

    def _flattened(self, arguments: Dict[str, Any]) -> Tuple[List[Any], Structure]:
        leaves: List[Any] = []
        children = []
        for name, value in arguments.items():
            if name in self._static:
                try:
                    hash(value)
                except TypeError:
                    raise TypeError("%s: the static argument %s cannot be hashed" % (
                        self._body.__name__, name)) from None
                children.append(("static", type(value), value))
                continue
            more, structure = flatten(value)
            leaves += more
            children.append(structure)
        return leaves, ("fields", dict, tuple(arguments), tuple(children))

    def _run_body(self, structure: Structure, leaves: List[Array]) -> Any:
        values = unflatten(structure, list(leaves))
        args: List[Any] = []
        kwargs: Dict[str, Any] = {}
        for name, parameter in self._signature.parameters.items():
            if name not in values:
                continue
            if parameter.kind is parameter.VAR_POSITIONAL:
                args += values[name]
            elif parameter.kind is parameter.KEYWORD_ONLY:
                kwargs[name] = values[name]
            else:
                args.append(values[name])
        return self._body(*args, **kwargs)

    def _fits(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> bool:
        """Whether it can be called with so many arguments, of these names."""
        try:
            self._arguments(args, kwargs)
        except TypeError:
            return False
        return True

    def _is_loaded(self) -> bool:
        return False

    def _numbered(self, structure: Structure) -> Structure:
        """The part of the structure of arguments whose number C compares."""
        return structure

    def _number(self, structure: Structure) -> int:
        structure = self._numbered(structure)
        with LOCK:
            return self._structures.setdefault(structure, len(self._structures))

    def _tree(self, structure: Structure) -> CTree:
        spare = self._trees.get(structure)
        if spare is None:
            spare = self._trees.setdefault(structure, [])
        try:
            return spare.pop()
        except IndexError:
            return CTree(structure, self._number(structure))

    def _given(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]
               ) -> Tuple[List[Any], Structure]:
        """The leaves of the arguments, and their structure."""
        return self._flattened(self._arguments(args, kwargs))

    def _traced(self, structure: Structure) -> _Trace:
        """What runs the Python function for arguments of a structure."""
        return _Trace(lambda given: self._run_body(structure, given), self._keeps)

    def _shown(self, structure: Structure, results: Structure) -> Structure:
        """The structure of the results, from those of the arguments and of the results
        of the Python function."""
        return results

    def _fixed(self) -> Optional[Structure]:
        """The structure of the results, where no Python function gives it."""
        return None

    def _expects(self, known: Optional[Structure]) -> Structure:
        """What C is told of the results of the Python function."""
        return opened(known)

    def _dims(self) -> Dims:
        return self._options[0]

    def _named_dims(self, structure: Structure) -> Any:
        """The dimensions of arguments that have any size: for each leaf."""
        if structure not in self._named:
            dims = self._dims()
            self._named[structure] = [
                set(dims.get(name) or name[:2] == "0." and dims.get(name[2:]) or ())
                for name in structure_names(structure)] if dims else None
        return self._named[structure]

    def _prepared(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]
                  ) -> Tuple[Any, ...]:
        leaves, structure = self._given(args, kwargs)
        arrays = [asarray(leaf) for leaf in leaves]
        tree = self._tree(structure)
        tree.put([a._pointer for a in arrays])
        for array in arrays:
            if array._keep:
                self._keeps += array._keep
        body = self._traced(structure)
        # the signature of C; numbers have one of their own
        types = [(type(leaf) in (int, float),) + _type_of(array)
                 for leaf, array in zip(leaves, arrays)]
        named = self._named_dims(structure)
        if named:
            types = [type_[:2] + tuple([None if d in dims else size for d, size
                                        in enumerate(type_[2:])]) if dims else type_
                     for type_, dims in zip(types, named)]
        return arrays, structure, tree, body, (structure, tuple(types))

    def _made(self, structure: Structure, body: _Trace, key: Any,
              run: Callable[[CTree], Any], has_results: bool = True
              ) -> Tuple[CTree, Structure]:
        """Makes a call of C, which gives the results a tree. For the first of a
        signature others wait: they have to know the structure."""
        if key in self._results:
            return self._attempted(structure, body, key, run, has_results)
        with self._first:
            return self._attempted(structure, body, key, run, has_results)

    def _attempted(self, structure: Structure, body: _Trace, key: Any,
                   run: Callable[[CTree], Any], has_results: bool
                   ) -> Tuple[CTree, Structure]:
        known = self._results.get(key)
        body.expected = self._expects(known)
        for _ in range(2):
            out = body.out = CTree(self._shown(structure, body.expected))
            if _attempt([body], lambda: run(out), [out] if has_results else []):
                break
            body.is_known = True
        if body.kinds is not None:
            self._results[key] = body.kinds
        elif known is None:
            self._results[key] = closed(body.expected)
        return out, self._shown(structure, self._results[key])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Computes the results. Within another function that is traced its operations
        become a part of that."""
        if current().is_trace:
            return self._body(*args, **kwargs)
        return self._called(args, kwargs)

    def _called(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
        current()
        handle = self._started()
        arrays, structure, tree, body, key = self._prepared(args, kwargs)

        def run(out: CTree) -> Any:
            diag = new_diag()
            LIB.nabla_function_call(handle.value, byref(tree.root), byref(out.root),
                                    byref(diag))
            return diag

        out, shown = self._made(structure, body, key, run)
        self._trees[structure].append(tree)
        return _collect(out, shown, (), arrays)

    def session(self, *args: Any, threads: Any = None, **kwargs: Any
                ) -> "FunctionSession":
        """A session of the signature of these arguments. States have their values at
        first; the inputs of a run are the arguments that are no states."""
        handle = self._started()
        _arrays, structure, tree, body, key = self._prepared(args, kwargs)
        how = _c.nabla_session_options(
            struct_size=ctypes.sizeof(_c.nabla_session_options),
            threads=int(threads or 0))
        made = ctypes.c_void_p()

        def run(out: CTree) -> Any:
            diag = new_diag()
            LIB.nabla_function_session(handle.value, byref(tree.root), byref(out.root),
                                       byref(how), byref(made), byref(diag))
            return diag

        _out, shown = self._made(structure, body, key, run, False)
        return FunctionSession(made.value or 0, handle, self, shown)

    def save(self, path: Any, force: bool = False) -> None:
        """Writes the signatures that were called and kept, with the values of arrays
        that they use from outside, to a file for load_function(). What belongs to the
        structure of trees besides arrays is texts, numbers and truth values there."""
        from .saved import save_function
        save_function(self, path, force)

    def emit(self, path: Any, args: Tuple[Any, ...] = (),
             kwargs: Optional[Mapping[str, Any]] = None, *, captured: Any = None,
             force: bool = False, **options: Any) -> None:
        """Writes the program of one signature, the one of these arguments, or the only
        one that was called: a saved program PATH.so for Program() and machines without
        a compiler, an object .o, or text: assembly .s, LLVM's .ll, or .mlir.

        Its function is "main", its arguments have the names of leaves, "params.w".
        Arrays that are used from outside are arguments "captured:0" and so on: captured
        names a .safetensors file that gets their values, which
        Program.bind_model(Model(captured)) binds. Python's numbers are constants of the
        program. options are those of nabla-compile:
        target="x86-64-v3"."""
        from .saved import emit_function
        emit_function(self, path, args, {} if kwargs is None else kwargs, captured, force, options)

    # ---- what it knows ----

    @property
    def statistics(self) -> FunctionStatistics:
        out = _c.nabla_function_statistics(
            struct_size=ctypes.sizeof(_c.nabla_function_statistics))
        call(LIB.nabla_function_count, self._started().value, byref(out))
        return FunctionStatistics(out.hits, out.misses, out.evictions, out.signatures,
                                  out.bytes, out.compile_ms)

    def text(self) -> str:
        """The programs of all signatures that are kept, as MLIR."""
        blob = _c.nabla_blob()
        sink = LIB.nabla_blob_sink(byref(blob))
        try:
            call(LIB.nabla_function_print, self._started().value, byref(sink))
            return ctypes.string_at(blob.bytes, blob.size).decode() if blob.bytes else ""
        finally:
            LIB.nabla_blob_release(byref(blob))

    def __repr__(self) -> str:
        return "<nabla.Function %s>" % self._body.__name__


def check_options(dims: Any, *replacements: Any) -> None:
    """Refuses options whose names are no texts."""
    if not (isinstance(dims, Mapping) and
            all(isinstance(of, Mapping) and isinstance(argument, str) and
                all(isinstance(dim, int) and isinstance(text, str)
                    for dim, text in of.items()) for argument, of in dims.items())):
        raise TypeError("dims are names of dimensions of arguments, {\"x\": {0: \"batch\"}}, "
                        "not %r" % (dims,))
    for pairs in replacements:
        if not (isinstance(pairs, Mapping) and
                all(isinstance(text, str) for pair in pairs.items() for text in pair)):
            raise TypeError("donate and states are names of arguments with those of results, "
                            "{\"w\": \"0\"}, not %r" % (pairs,))


def c_options(options: Tuple[Any, ...], name: Optional[bytes]) -> Tuple[Any, Any]:
    """A nabla_function_options, and what it points to."""
    dims, donate, states, max_signatures, max_traces = options
    rows = [(argument, dim, text) for argument, of in dims.items()
            for dim, text in of.items()]
    named = (_c.nabla_function_dim * max(len(rows), 1))()
    for place, (argument, dim, text) in zip(named, rows):
        place.argument, place.dim, place.name = argument.encode(), dim, text.encode()
    given, kept = _replacements(donate), _replacements(states)
    how = _c.nabla_function_options(
        struct_size=ctypes.sizeof(_c.nabla_function_options), name=name,
        dims=ctypes.addressof(named), dim_count=len(rows),
        states=ctypes.addressof(kept), state_count=len(states),
        donated=ctypes.addressof(given), donated_count=len(donate),
        max_signatures=max_signatures, max_traces=max_traces)
    return how, (named, given, kept)


def _type_of(array: Array) -> Tuple[Any, ...]:
    it = array._described()
    return (it.dtype,) + tuple(it.shape[:it.rank])


def _c_name(name: str) -> bytes:
    text = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name)
    return (text or "main").encode()


def _replacements(pairs: Mapping[str, str]) -> Any:
    out = (_c.nabla_function_replacement * max(len(pairs), 1))()
    for place, (argument, result) in zip(out, pairs.items()):
        place.argument, place.result = argument.encode(), result.encode()
    return out


def function(body: Optional[Callable[..., Any]] = None, **options: Any) -> Any:
    """A decorator: traces a function once for each signature of its arguments (dtypes,
    shapes, structure, static values) and runs it as a compiled program.

    dims: names of dimensions that may have any size: {"x": {0: "batch"}}.
    donate: arguments whose memory results take: {"w": "0"}; leaves have names such as
    "params.w", results "0" or "loss", one result alone "". states: the same of a session's states.
    static: names of parameters whose values are a part of the signature, such as
    numbers that are sizes; texts and truth values always are. max_signatures,
    max_traces: bounds of the signatures that are kept, and that are traced."""
    if body is None:
        return lambda it: Function(it, **options)
    return Function(body, **options)


class FunctionSession(Session):
    """A session of a traced function: its states, and the memory of a run."""

    def __init__(self, session: int, handle: Handle, of: Function,
                 results: Structure):
        self._adopt(session, handle)
        self._of = of
        states = set(of._options[2].values())
        count = sum(name not in states for name in structure_names(results))
        self._signatures = {"main": (None, 0, [False] * count)}

    def run(self, *args: Any) -> Any:  # type: ignore[override]
        """Runs the function. Arguments are trees whose leaves are the inputs: those of
        the function's arguments that are no states, in order. What is no state comes
        back, as NumPy arrays: one alone, or a tuple."""
        given = []
        for value in args:
            given += [leaf.numpy() if isinstance(leaf, Array) and not leaf.is_packed
                      else leaf.weight() if isinstance(leaf, Array) else leaf
                      for leaf in flatten(value)[0]]
        return super().run("main", *given)


# ---- control flow ----


def cond(predicate: Any, yes: Callable[..., Any], no: Callable[..., Any],
         *operands: Any) -> Any:
    """The results of `yes(*operands)` where a truth value of rank 0 is true, else those
    of `no(*operands)`. Both are traced, and have results of the same structure, dtypes
    and shapes."""
    chosen = asarray(predicate)
    keeps: List[Any] = []
    bodies = [_Trace(lambda _: yes(*operands), keeps, opened(None)),
              _Trace(lambda _: no(*operands), keeps, opened(None))]
    bodies[1].like = bodies[0]
    out = CTree(opened(None))

    def run() -> Any:
        LIB.nabla_cond(chosen._pointer, ctypes.cast(_FIRST, ctypes.c_void_p),
                       ctypes.cast(_SECOND, ctypes.c_void_p), None, None,
                       byref(out.root))

    _attempt(bodies, run, [out])
    return _collect(out, bodies[0].found or NONE, _taken(keeps, chosen))


def _taken(keeps: List[Any], *arrays: Array) -> Tuple[Any, ...]:
    """What the results of control flow keep: a weight may belong to no array."""
    out: List[Any] = []
    for keep in keeps + [k for a in arrays for k in a._keep]:
        if keep not in out:
            out.append(keep)
    _pass_on(out)
    return tuple(out)


def _pass_on(keeps: List[Any]) -> None:
    outer = LOCAL.scopes[-1].keeps
    if outer is not None:
        outer.extend(keeps)


def while_loop(condition: Callable[[Any], Any], body: Callable[[Any], Any],
               initial: Any) -> Any:
    """As long as `condition(values)` gives true, `values = body(values)`, which is a
    tree that begins as `initial` and keeps its structure, dtypes and shapes."""
    leaves, structure = flatten(initial)
    arrays = [asarray(leaf) for leaf in leaves]
    keeps: List[Any] = []
    first = _Trace(lambda given: condition(unflatten(structure, given)), keeps)
    second = _Trace(lambda given: body(unflatten(structure, given)), keeps)
    first.is_known = second.is_known = True
    second.expected = structure
    given, out = CTree(structure), CTree(structure)
    given.put([a._pointer for a in arrays])

    def run() -> Any:
        LIB.nabla_while(
            ctypes.cast(_FIRST, ctypes.c_void_p), ctypes.cast(_SECOND, ctypes.c_void_p),
            None, byref(given.root), byref(out.root))

    _attempt([first, second], run, [out])
    return _collect(out, structure, _taken(keeps, *arrays))


def scan(body: Callable[[Any, Any], Tuple[Any, Any]], initial: Any, inputs: Any, *,
         reverse: bool = False) -> Tuple[Any, Any]:
    """A loop over the first dimension of `inputs`, a tree of arrays: in each step
    `carried, output = body(carried, input)`. Returns what is carried after the last
    step, and the outputs, stacked."""
    leaves, carried = flatten(initial)
    over, input_structure = flatten(inputs)
    arrays = [asarray(leaf) for leaf in leaves + over]
    keeps: List[Any] = []
    given = [CTree(carried), CTree(input_structure)]
    given[0].put([a._pointer for a in arrays[:len(leaves)]])
    given[1].put([a._pointer for a in arrays[len(leaves):]])
    how = _c.nabla_scan_options(
        struct_size=ctypes.sizeof(_c.nabla_scan_options), reverse=int(reverse),
        initial=ctypes.addressof(given[0].root) if carried != NONE else None,
        inputs=ctypes.addressof(given[1].root))

    def step(arguments: List[Array]) -> Any:
        count = len(leaves)
        done = body(unflatten(carried, arguments[:count]),
                    unflatten(input_structure, arguments[count:]))
        if not isinstance(done, tuple) or len(done) != 2:
            raise InvalidArgument("the body of scan() gives a tuple of two: what is "
                                  "carried on, and an output")
        return done

    trace = _Trace(step, keeps, ("items", tuple, (carried, opened(None))))
    last, stacked = CTree(carried), CTree(opened(None))

    def run() -> Any:
        LIB.nabla_scan(ctypes.cast(_FIRST, ctypes.c_void_p), None, byref(how),
                       byref(last.root) if carried != NONE else None,
                       byref(stacked.root))

    if not _attempt([trace], run, [last, stacked]) or trace.found is None:
        raise InvalidArgument("the body of scan() carries on another structure than "
                              "it was given")
    keep = _taken(keeps, *arrays)
    return _collect(last, carried, keep), _collect(stacked, trace.found[2][1], keep)


def call_function(callee: Function, *args: Any, **kwargs: Any) -> Any:
    """A call of a function that stays a call in the program, so that calls that are
    alike, such as those of a model's layers, are compiled once."""
    if not isinstance(callee, Function):
        raise TypeError("%r is no nabla.Function" % type(callee).__name__)
    current()
    handle = callee._started()
    arrays, structure, tree, body, key = callee._prepared(args, kwargs)
    body.keeps = []

    def run(out: CTree) -> Any:
        LIB.nabla_call(handle.value, byref(tree.root), byref(out.root))

    out, shown = callee._made(structure, body, key, run)
    return _collect(out, shown, _taken(body.keeps, *arrays), arrays)
