"""Compiled programs and their sessions."""
import ctypes
import threading
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple, Union

import numpy as np

from . import _c, _dtypes, _views
from ._errors import Cancelled, InvalidArgument, Unsupported
from ._library import LIB, Handle, Owner, byref, call, create, to_path
from .formats import Format, of_storage
from .models import Held, Model, Weight, describe
from .pools import Pool, environment, handle_of


class Port(NamedTuple):
    """What a function takes or gives at one place."""

    name: str
    dtype: str
    shape: Tuple[Optional[int], ...]   #: None where any size goes
    format: Optional[Format]           #: of a packed weight
    state: Optional[str]               #: the name of the state that it is


class Signature(NamedTuple):
    """A function of a program."""

    name: str
    arguments: List[Port]
    results: List[Port]


def _port(it: Any) -> Port:
    return Port((it.name or b"").decode(), _dtypes.name_of(it.dtype),
                tuple(None if d == _c.DYNAMIC else d for d in it.shape[:it.rank]),
                of_storage(it.layout), (it.state_name or b"").decode() or None)


def _ports(first: int, count: int) -> List[Any]:
    return list((_c.nabla_port * count).from_address(first)) if count else []


class Program(Owner):
    """A program that nabla-compile saved (`-o program.so`). It is code: open only what
    you trust as you trust programs that you start.

    One that is divided over several devices is run by as many threads of this process.

    Weights are bound by name before the first session, or the first call of run()
    that gets as far as the program's code."""

    _noun = "program"

    def __init__(self, path: Any, threads: Union[int, Pool, None] = 1):
        pool = handle_of(threads)
        self._adopt(create(LIB.nabla_executable_open, to_path(path),
                           byref(environment(pool))), pool)

    def _adopt(self, executable: int, pool: Optional[Handle]) -> None:
        keep: List[Any] = []

        def close(value: int, _keep: Any = keep) -> None:
            LIB.nabla_executable_close(value)
            _keep.clear()

        self._keep = keep
        self._handle = Handle(executable, close, *([pool] if pool else []))
        self._session: Union[Session, _Ranks, None] = None
        self._threads = LIB.nabla_pool_size(pool.value) if pool else 1

    @property
    def functions(self) -> List[Signature]:
        value = self._open().value
        return [_signature(LIB.nabla_executable_function(value, i))
                for i in range(LIB.nabla_executable_function_count(value))]

    @property
    def ranks(self) -> int:
        """The devices that it is divided over; 1 where it is not."""
        return int(LIB.nabla_executable_ranks(self._open().value))

    def bind(self, argument: str, weight: Any) -> None:
        """Binds a weight, or a dense array, to the arguments of that name."""
        if not isinstance(weight, Weight):
            weight = dense_weight(weight)
        call(LIB.nabla_executable_bind, self._open().value, argument.encode(),
             byref(weight._desc))
        self._keep.append(weight)

    def bind_model(self, model: Model) -> int:
        """Binds every argument whose name a tensor of the model has. Returns their
        number."""
        summary = _c.nabla_bind_summary()
        call(LIB.nabla_executable_bind_model, self._open().value, model._open().value,
             None, byref(summary))
        self._keep.append(Held(model._open()))
        return summary.counts[_c.BIND_BOUND]

    def session(self, threads: Union[int, Pool, None] = None) -> "Session":
        """A session, with states of its own; threads None: the program's."""
        return Session(self, threads)

    def run(self, function: str, *inputs: Any) -> Any:
        """Runs a function that has no states. One result is an array, several are a
        tuple; inputs and results are whole also where the program is divided over
        several devices."""
        self._open()
        session = self._session or (
            _Ranks(self, self._threads) if self.ranks > 1 else Session(self))
        try:
            results = session.run(function, *inputs)
        except BaseException:
            if session is not self._session or isinstance(session, _Ranks):
                self._session = None
                session.free()  # a traceback may keep it, and weights could not be bound
            raise
        self._session = session
        return results

    def close(self) -> None:
        self._session = None
        super().close()


def _signature(address: int) -> Signature:
    it = _c.nabla_signature.from_address(address)
    return Signature(it.name.decode(),
                     [_port(p) for p in _ports(it.arguments, it.argument_count)],
                     [_port(p) for p in _ports(it.results, it.result_count)])


def dense_weight(values: Any, name: str = "") -> Weight:
    """A dense array as a weight, without a copy where it is row-major."""
    array = _views.contiguous(values)
    desc = describe(array.shape, _dtypes.to_c(array.dtype), _c.nabla_storage(), name)
    desc.components[0].data = _views.address(array)
    return Weight(desc, (array,))


class Session(Owner):
    """What a program keeps from one run to the next: its states, and the memory of a
    run. One thread at a time runs it; the states are all zero at first."""

    _noun = "session"
    _signatures: Dict[str, Any]

    def __init__(self, program: Program, threads: Union[int, Pool, None] = None,
                 _comm: Optional[Handle] = None, _rank: int = 0):
        pool = None if threads is None else handle_of(threads)
        how = _c.nabla_session_options(
            struct_size=ctypes.sizeof(_c.nabla_session_options),
            pool=pool.value if pool else None,
            threads=1 if threads == 1 else 0, comm=_comm.value if _comm else None,
            rank=_rank, check=_c.CHECK_NEVER if _comm else _c.CHECK_START)
        parent = program._open()
        self._adopt(create(LIB.nabla_session_create, parent.value, byref(how)),
                    parent, *[other for other in (pool, _comm) if other])
        self._signatures = {s.name: (s, self._given(s.name), self._packed(s.name))
                            for s in program.functions}

    def _adopt(self, session: int, *parents: Handle) -> None:
        self._handle = Handle(session, LIB.nabla_session_close, *parents)
        self._executable = parents[0]

    def _found(self, name: str) -> Any:
        address = LIB.nabla_executable_find(self._executable.value, name.encode())
        return _c.nabla_signature.from_address(address)

    def _given(self, name: str) -> int:
        return self._found(name).argument_count

    def _packed(self, name: str) -> List[bool]:
        """For each result whether it is packed; one that is packed is several ports."""
        it, out, skip = self._found(name), [], 0
        for port in _ports(it.results, it.result_count):
            if skip:
                skip -= 1
                continue
            out.append(bool(port.packed))
            if port.packed:
                whole = _c.nabla_port.from_address(port.packed)
                skip = whole.component_count - 1
        return out

    def has_donated(self, name: str) -> bool:
        """Whether a run of a function may overwrite an input."""
        it = self._found(name)
        return any(port.is_donated for port in _ports(it.arguments, it.argument_count))

    def check_whole(self, name: str) -> None:
        """Refuses a function that is none, or gives pieces of results."""
        self._check(name)
        it = self._found(name)
        for i, port in enumerate(_ports(it.results, it.result_count)):
            if port.is_piece:
                raise Unsupported("result %d of %r is the piece of one device, not the "
                                  "whole array: compile the program without "
                                  "results=\"divided\"" % (i, name))

    def _check(self, function: str) -> None:
        if function not in self._signatures:
            raise InvalidArgument("there is no function %r; there are %s" % (
                function, ", ".join(sorted(self._signatures))))

    def run(self, function: str, *inputs: Any) -> Any:
        """Runs a function. Inputs are arrays or weights, one for each argument that is
        neither bound nor a state, in order. One result is an array, several are a
        tuple; packed results are weights."""
        handle = self._open()
        self._check(function)
        packed = self._signatures[function][2]
        keep: List[Any] = []
        given = (_c.nabla_session_input * max(len(inputs), 1))()
        for place, value in zip(given, inputs):
            if isinstance(value, Weight):
                place.weight = ctypes.addressof(value._desc)
            else:
                array = _views.contiguous(value)
                keep.append(array)
                place.dense = _views.dense(array)
        outputs = (_c.nabla_session_output * max(len(packed), 1))()
        descs = [_c.nabla_weight_desc() if is_packed else None for is_packed in packed]
        for place, desc in zip(outputs, descs):
            if desc is not None:
                place.weight = ctypes.addressof(desc)
        arrays = _c.nabla_session_arrays(
            struct_size=ctypes.sizeof(_c.nabla_session_arrays),
            inputs=ctypes.addressof(given), input_count=len(inputs),
            outputs=ctypes.addressof(outputs), output_count=len(packed))
        call(LIB.nabla_session_call, handle.value, function.encode(), byref(arrays))
        results = [_weight(desc) if desc is not None else _result(place.dense)
                   for place, desc in zip(outputs, descs)]
        return results[0] if len(results) == 1 else tuple(results)

    def free(self) -> None:
        """Closes it, also where something still holds on to it."""
        handle = self._handle
        self.close()
        if handle is not None:
            handle.drop()

    @property
    def states(self) -> "States":
        """The states by name."""
        return States(self)

    def copy_from(self, other: "Session", name: Optional[str] = None) -> None:
        """Copies a state of another session, or all."""
        call(LIB.nabla_session_state_copy, self._open().value, other._open().value,
             name.encode() if name is not None else None)

    @property
    def state_bytes(self) -> int:
        return self._usage().state_bytes

    @property
    def run_bytes(self) -> int:
        """Memory of temporary arrays, kept for the next run."""
        return self._usage().run_bytes

    def _usage(self) -> Any:
        out = _c.nabla_session_usage(
            struct_size=ctypes.sizeof(_c.nabla_session_usage))
        call(LIB.nabla_session_memory, self._open().value, byref(out))
        return out


class _Ranks:
    """Sessions of a program that is divided over several devices: one for each rank, run
    by a thread of its own. After a failure they are spent."""

    def __init__(self, program: Program, threads: int):
        count = program.ranks
        self._comm = Handle(create(LIB.nabla_comm_threads, count), LIB.nabla_comm_destroy)
        share = max(threads // count, 1)
        self._lock = threading.Lock()
        self._running: List[threading.Thread] = []
        self._sessions = [Session(program, share, self._comm, rank)
                          for rank in range(count)]

    def run(self, function: str, *inputs: Any) -> Any:
        with self._lock:
            self._sessions[0].check_whole(function)
            return self._run(function, [
                value if isinstance(value, Weight) else _views.contiguous(value)
                for value in inputs])

    def _run(self, function: str, inputs: List[Any]) -> Any:
        results: List[Any] = [None] * len(self._sessions)
        errors: List[BaseException] = []
        is_donated = self._sessions[0].has_donated(function)

        def work(rank: int) -> None:
            try:
                own = [np.array(value) if rank and is_donated and
                       isinstance(value, np.ndarray) else value for value in inputs]
                results[rank] = self._sessions[rank].run(function, *own)
            except BaseException as error:  # raised again below; no rank waits for it
                self._fail(rank, error)
                errors.append(error)

        self._running = [threading.Thread(target=work, args=(rank,), daemon=True)
                         for rank in range(1, len(results))]
        try:
            for thread in self._running:
                thread.start()
            work(0)
            for thread in self._running:
                thread.join()
        except BaseException as error:
            self._fail(0, error)
            for thread in self._running:
                if thread.ident is not None:
                    thread.join()
            raise
        for error in errors:  # of several, not that a rank was woken by another's
            if not isinstance(error, Cancelled):
                raise error
        if errors:
            raise errors[0]
        return results[0]

    def _fail(self, rank: int, error: BaseException) -> None:
        LIB.nabla_comm_fail(self._comm.value, rank, str(error).encode()[:200])

    def free(self) -> None:
        if not any(thread.is_alive() for thread in self._running):
            for session in self._sessions:
                session.free()


class States:
    """The states of a session: a mapping of names to arrays, which are copies."""

    def __init__(self, session: Session):
        self._session = session

    def _all(self) -> List[Any]:
        value = self._session._open().value
        return [_c.nabla_port.from_address(LIB.nabla_session_state(value, i))
                for i in range(LIB.nabla_session_state_count(value))]

    def keys(self) -> List[str]:
        return [port.state_name.decode() for port in self._all()]

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return LIB.nabla_session_state_count(self._session._open().value)

    def __contains__(self, name: object) -> bool:
        return name in self.keys()

    def __getitem__(self, name: str) -> Any:
        for port in self._all():
            if port.state_name.decode() == name:
                break
        else:
            raise InvalidArgument("there is no state %r; there are %s" % (
                name, ", ".join(self.keys())))
        out = np.empty(tuple(port.shape[:port.rank]), _dtypes.to_numpy(port.dtype))
        value = _views.dense(out)
        call(LIB.nabla_session_state_get, self._session._open().value, name.encode(),
             byref(value))
        return out

    def __setitem__(self, name: str, value: Any) -> None:
        array = _views.contiguous(value)
        dense = _views.dense(array)
        call(LIB.nabla_session_state_set, self._session._open().value, name.encode(),
             byref(dense))

    def zero(self, name: Optional[str] = None) -> None:
        """Sets a state to zero, or all."""
        call(LIB.nabla_session_state_zero, self._session._open().value,
             name.encode() if name is not None else None)


def _free(memory: int) -> None:
    LIB.nabla_result_free(None, memory)


def _result(value: Any) -> Any:
    return _views.of_dense(value, Handle(value.data, _free) if value.data else None)


def _weight(desc: Any) -> Weight:
    return Weight(desc, tuple(Handle(c.data, _free)
                              for c in desc.components[:desc.component_count] if c.data))
