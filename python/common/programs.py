"""Compiled programs and their sessions."""
import ctypes
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple, Union

import numpy as np

from . import _c, _dtypes, _views
from ._errors import InvalidArgument
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
        self._session: Optional[Session] = None

    @property
    def functions(self) -> List[Signature]:
        value = self._open().value
        return [_signature(LIB.nabla_executable_function(value, i))
                for i in range(LIB.nabla_executable_function_count(value))]

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
        tuple."""
        self._open()
        if self._session is not None:
            return self._session.run(function, *inputs)
        session = Session(self)
        try:
            results = session.run(function, *inputs)
        except BaseException:
            session.free()  # a traceback may keep it, and it keeps weights from being bound
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

    def __init__(self, program: Program, threads: Union[int, Pool, None] = None):
        pool = None if threads is None else handle_of(threads)
        how = _c.nabla_session_options(
            struct_size=ctypes.sizeof(_c.nabla_session_options),
            pool=pool.value if pool else None,
            threads=1 if threads == 1 else 0)
        parent = program._open()
        self._adopt(create(LIB.nabla_session_create, parent.value, byref(how)),
                    parent, *([pool] if pool else []))
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

    def run(self, function: str, *inputs: Any) -> Any:
        """Runs a function. Inputs are arrays or weights, one for each argument that is
        neither bound nor a state, in order. One result is an array, several are a
        tuple; packed results are weights."""
        handle = self._open()
        if function not in self._signatures:
            raise InvalidArgument("there is no function %r; there are %s" % (
                function, ", ".join(sorted(self._signatures))))
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
