"""The engine and the scopes of threads, which Python code does not see: an array is
freed when Python needs it no more."""
import atexit
import ctypes
import os
import sys
import threading
from collections import deque
from typing import (Any, Deque, Dict, List, Mapping, NamedTuple, NoReturn,
                    Optional)

from . import _c
from ._errors import Error, InvalidArgument
from ._library import (LIB, LOCK, byref, call, create, end_use, error_of, is_ending,
                       new_diag)
from .pools import environment, handle_of

_HERE = os.path.dirname(os.path.abspath(__file__))


class EngineStatistics(NamedTuple):
    """Counts since the start, and the present size, of the cache of programs."""

    hits: int
    misses: int         #: programs that were compiled
    evictions: int
    programs: int
    bytes: int
    compile_ms: float


class _Engine:
    handle: int = 0
    comm: int = 0  # of processes
    keep: Any = None


_engine = _Engine()


def configure(*, max_programs: int = 0, max_bytes: int = 0, compilers: int = 0,
              threads: Any = 0, cache: Optional[str] = None, processes: bool = False,
              **compile_options: Any) -> None:
    """Sets the options of the engine, which all threads share, before the first array
    is made.

    max_programs, max_bytes: bounds of the cache of programs. compilers: compilations at
    the same time. threads: of the computation; 0: one for each CPU. cache: the folder
    of compiled objects, "" for none. processes: the devices of meshes are the processes
    that mpirun started, which run the same program, not threads. Others are those of
    nabla-compile: target, numerics ("f32", "bf16", "int8"), policy ("off", "warn",
    "error"), no_fusion."""
    with LOCK:
        if _engine.handle:
            raise InvalidArgument("the engine has started: configure() comes before the "
                                  "first array")
        _start(max_programs, max_bytes, compilers, threads, cache, compile_options,
               processes)


def rank() -> int:
    """The number of this process among those of configure(processes=True); else 0."""
    return LIB.nabla_comm_rank(_engine.comm) if _engine.comm else 0


def rank_count() -> int:
    """The number of these processes; else 1."""
    return LIB.nabla_comm_size(_engine.comm) if _engine.comm else 1


def _leave() -> None:
    """Leaves the other processes, which wait for each other at the end. After an error
    it does not: the library ends the job, so that none waits for ever."""
    failed = getattr(sys, "last_value", None) is not None
    if not failed and not LIB.nabla_comm_status(_engine.comm, None):
        end_use()  # the engine stays, and runs nothing any more
        LIB.nabla_comm_destroy(_engine.comm)


def compile_options(given: Mapping[str, Any]) -> Any:
    """A nabla_compile_options, which keeps its texts."""
    known = {field[0] for field in _c.nabla_compile_options._fields_
             if field[1] is ctypes.c_char_p}
    wrong = set(given) - known
    if wrong:
        raise InvalidArgument("there is no option %s; there are %s" % (
            ", ".join(sorted(wrong)), ", ".join(sorted(known))))
    texts = {name: ("on" if value is True else "off" if value is False else
                    str(value)).encode() for name, value in given.items()}
    return _c.nabla_compile_options(
        struct_size=ctypes.sizeof(_c.nabla_compile_options), **texts)


def _start(max_programs: int, max_bytes: int, compilers: int, threads: Any,
           cache: Optional[str], given: Dict[str, Any], processes: bool = False) -> None:
    compile_ = compile_options(given)
    if processes and not _engine.comm:
        _engine.comm = create(LIB.nabla_comm_mpi)
        atexit.register(_leave)
    compiler = _c.nabla_compiler_options(
        struct_size=ctypes.sizeof(_c.nabla_compiler_options),
        cache=cache.encode() if cache is not None else None)
    how = _c.nabla_engine_options(
        struct_size=ctypes.sizeof(_c.nabla_engine_options), max_programs=max_programs,
        max_bytes=max_bytes, compilers=compilers, comm=_engine.comm if processes else 0,
        compiler=ctypes.addressof(compiler), compile=ctypes.addressof(compile_))
    pool = handle_of(threads)
    env = environment(pool)
    handle = create(LIB.nabla_engine_create, byref(how), byref(env))
    _engine.keep = (how, compile_, compiler, pool)
    _engine.handle = handle


def engine() -> int:
    """The engine, which is started when it is first needed."""
    if not _engine.handle:
        with LOCK:
            if not _engine.handle:
                _start(0, 0, 0, 0, None, {})
    return _engine.handle


def statistics() -> EngineStatistics:
    """Counts of the engine: what was compiled, and what was found compiled."""
    out = _c.nabla_engine_statistics(
        struct_size=ctypes.sizeof(_c.nabla_engine_statistics))
    call(LIB.nabla_engine_count, engine(), byref(out))
    return EngineStatistics(out.hits, out.misses, out.evictions, out.programs,
                            out.bytes, out.compile_ms)


class Scope:
    """A scope of C. Its arrays are released by its thread alone; what other threads
    give up waits in `garbage`."""

    __slots__ = ("handle", "thread", "ended", "garbage", "is_trace", "keeps")

    def __init__(self, handle: int, is_trace: bool):
        self.handle = handle
        self.thread = threading.get_ident()
        self.ended = False
        self.garbage: Deque[int] = deque()
        self.is_trace = is_trace
        self.keeps: Optional[List[Any]] = None

    def drain(self) -> None:
        while self.garbage:
            LIB.nabla_release(self.garbage.popleft())


# The scope of arrays whose reference of the scope is not Python's to release.
KEPT = Scope(0, False)
KEPT.ended = True


class _Root:
    """Ends a thread's scope with the thread."""

    def __init__(self) -> None:
        self.scope = Scope(create(LIB.nabla_scope_create, engine()), False)

    def __del__(self) -> None:
        scope = getattr(self, "scope", None)
        if scope is not None and not is_ending():
            scope.ended = True
            LIB.nabla_scope_end(scope.handle)


class _Local(threading.local):
    def __init__(self) -> None:
        self.scopes: List[Scope] = []
        self.root: Optional[_Root] = None
        self.calls: List[Any] = []


LOCAL = _Local()


def current() -> Scope:
    """The innermost scope of this thread."""
    scopes = LOCAL.scopes
    if not scopes:
        LOCAL.root = _Root()
        scopes.append(LOCAL.root.scope)
    scope = scopes[-1]
    if scope.garbage:
        scope.drain()
    return scope


def eager(is_eager: bool = True) -> None:
    """Makes every operation of this thread be computed at once, or ends that: the
    results are the same. For finding out where a value goes wrong."""
    scope = current()
    if scope.is_trace:
        raise InvalidArgument("eager() within a function that is traced")
    LIB.nabla_scope_set_eager(scope.handle, int(is_eager))


def place() -> bytes:
    """The line of the caller's program: FILE:LINE."""
    frame = sys._getframe(1)
    while frame.f_back and os.path.dirname(
            os.path.abspath(frame.f_code.co_filename)) == _HERE:
        frame = frame.f_back  # type: ignore[assignment]
    return ("%s:%d" % (os.path.basename(frame.f_code.co_filename), frame.f_lineno)
            ).encode()


def failure(diag: Optional[Any] = None) -> Error:
    """The exception of the first failure of this thread's scope, which forgets it."""
    scope = LOCAL.scopes[-1]
    told = new_diag()
    if LIB.nabla_scope_status(scope.handle, byref(told)) or diag is None:
        LIB.nabla_scope_clear(scope.handle)
        diag = told
    else:
        LIB.nabla_scope_clear(scope.handle)
    if b"+0x" in diag.file or not diag.file:  # a place in the C library
        diag.file = place()
    return error_of(diag)


def raise_failure(diag: Optional[Any] = None) -> NoReturn:
    raise failure(diag)


def attempt(function: Any, *arguments: Any) -> None:
    """Calls a function whose failures become those of the scope."""
    diag = new_diag()
    if function(*arguments, byref(diag)):
        raise_failure(diag)
