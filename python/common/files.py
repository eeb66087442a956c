"""Whole models: quantizing, decoding, comparing and verifying files."""
import ctypes
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Union

from . import _c, _dtypes
from ._errors import Error, InvalidArgument
from ._library import LIB, Handle, byref, create, error_of, fail, new_diag, to_path
from .formats import Format, find, of_format, scale_type
from .pools import Pool, environment, handle_of

_LAYOUTS = {"auto": _c.CHOOSE_AUTO, "bitsandbytes": _c.CHOOSE_BITSANDBYTES,
            "nabla": _c.CHOOSE_NABLA}
Progress = Callable[[float, Optional[str]], Any]


class Rule(NamedTuple):
    """The encoding of tensors whose names match a pattern (a POSIX extended regular
    expression); None keeps them as they are."""

    pattern: str
    encoding: Optional[str]
    block: Union[int, str, None] = None
    scale: Optional[str] = None
    zero_point: bool = False
    search: bool = False


class PlanRow(NamedTuple):
    """What becomes of a tensor."""

    name: str
    format: Optional[Format]    #: None where it is copied
    bytes_in: int
    bytes_out: int
    reason: str


class WriteSummary(NamedTuple):
    """What was written."""

    tensors: int
    changed: int      #: tensors that were quantized, or decoded
    bytes_in: int
    bytes_out: int
    files: int
    seconds: float


class Difference(NamedTuple):
    """How a tensor of the second model differs from that of the first."""

    name: str
    max_abs: float
    rel_rmse: float
    cosine: float
    problem: Optional[str]


def _settings(block: Union[int, str, None], scale: Optional[str], zero_point: bool,
              search: bool) -> Any:
    out = _c.nabla_settings(zero_point=int(zero_point), search=int(search))
    sizes = {"row": _c.BLOCK_ROW, "tensor": _c.BLOCK_TENSOR, None: 0}
    if isinstance(block, int) and block >= 0:
        out.block = block
    elif block in sizes:
        out.block = sizes[block]  # type: ignore[index]
    else:
        raise InvalidArgument("a block is a number, \"row\" or \"tensor\", not %r" %
                              (block,))
    if scale is not None:
        out.has_scale, out.scale = 1, scale_type(scale)
    return out


def _texts(values: Optional[Iterable[str]]) -> Any:
    if isinstance(values, str):
        raise InvalidArgument("patterns are a list of texts, not one text")
    data = [value.encode() for value in values or ()]
    return (ctypes.c_char_p * max(len(data), 1))(*data), len(data)


class _Plan:
    """A checkpoint with its plan."""

    def __init__(self, path: Any, encoding: Optional[str], block: Any,
                 scale: Optional[str], zero_point: bool, search: bool,
                 only: Optional[Iterable[str]], skip: Optional[Iterable[str]],
                 rules: Iterable[Rule], layout: str, keep_nonfinite: bool,
                 env: Any, env_pool: Optional[Handle], is_one_file: bool):
        if layout not in _LAYOUTS:
            raise InvalidArgument("a layout is one of %s, not %r" % (
                ", ".join(_LAYOUTS), layout))
        only_texts, only_count = _texts(only)
        skip_texts, skip_count = _texts(skip)
        rows = list(rules)
        table = (_c.nabla_quantize_rule * max(len(rows), 1))()
        for row, rule in zip(table, rows):
            rule = Rule(*rule)
            row.pattern = rule.pattern.encode()
            row.encoding = find(rule.encoding) if rule.encoding else None
            row.settings = _settings(*rule[2:])
        how = _c.nabla_quantize_options(
            struct_size=ctypes.sizeof(_c.nabla_quantize_options),
            encoding=find(encoding) if encoding else None,
            settings=_settings(block, scale, zero_point, search),
            layout=_LAYOUTS[layout], nonfinite=_c.NONFINITE_KEEP if keep_nonfinite else
            _c.NONFINITE_REFUSE, only=ctypes.addressof(only_texts),
            only_count=only_count, skip=ctypes.addressof(skip_texts),
            skip_count=skip_count, rules=ctypes.addressof(table),
            rule_count=len(rows), weights_alone=int(is_one_file))
        self.checkpoint = open_checkpoint(path)
        self.handle = Handle(
            create(LIB.nabla_plan_create, self.checkpoint.value, byref(how),
                   byref(env)), LIB.nabla_plan_destroy, self.checkpoint)
        self.pool = env_pool

    def rows(self) -> List[PlanRow]:
        out = []
        for i in range(LIB.nabla_plan_count(self.handle.value)):
            row = LIB.nabla_plan_get(self.handle.value, i)
            tensor = LIB.nabla_checkpoint_tensor(self.checkpoint.value, row.tensor)
            out.append(PlanRow(tensor.name.decode(),
                               of_format(row.format) if row.quantized else None,
                               row.bytes_in, row.bytes_out, row.reason.decode()))
        return out


def open_checkpoint(path: Any) -> Handle:
    return Handle(create(LIB.nabla_checkpoint_open, to_path(path), None),
                  LIB.nabla_checkpoint_close)


class _Told:
    """A callback of progress, and the exception that it raised."""

    def __init__(self, progress: Optional[Progress], pool: Optional[Handle]):
        self.error: Optional[BaseException] = None
        self.callback = _c.nabla_environment_progress_callback(self._call)
        self.progress, self.pool = progress, pool
        self.environment = environment(pool)
        if progress is not None:
            self.environment.progress = ctypes.cast(self.callback,
                                                    ctypes.c_void_p).value

    def _call(self, _: Any, moment: int) -> int:
        try:
            it = _c.nabla_progress.from_address(moment)
            done = it.bytes_done / it.bytes_total if it.bytes_total else 0.0
            told = self.progress or (lambda part, name: None)
            stop = told(done, it.tensor.decode() if it.tensor else None)
            return 1 if stop else 0
        except BaseException as error:  # raised again behind the call of C
            self.error = error
            return 1

    def call(self, function: Any, *arguments: Any) -> None:
        diag = new_diag()
        status = function(*arguments, byref(diag))
        if self.error is not None:
            raise self.error
        if status:
            fail(diag)


def _is_file(out: Any) -> bool:
    return to_path(out).endswith((b".safetensors", b".json"))


def _write(told: _Told, function: Any, arguments: Any, checkpoint: Handle,
           plan: Optional[int], out: Any, force: bool) -> WriteSummary:
    path, summary = to_path(out), _c.nabla_write_summary()
    folder = Handle(create(LIB.nabla_folder_create, checkpoint.value, plan, path,
                           byref(told.environment)), LIB.nabla_folder_destroy,
                    checkpoint)
    where = _c.nabla_write_options(
        struct_size=ctypes.sizeof(_c.nabla_write_options), path=path,
        force=int(force), folder=folder.value)
    told.call(function, *arguments, byref(where), byref(told.environment),
              byref(summary))
    folder.drop()
    return WriteSummary(summary.tensors, summary.changed, summary.bytes_in,
                        summary.bytes_out, summary.files, summary.seconds)


def quantize_file(path: Any, out: Any, encoding: Optional[str] = None,
                  block: Union[int, str, None] = None, *,
                  scale: Optional[str] = None, zero_point: bool = False,
                  search: bool = False, only: Optional[Iterable[str]] = None,
                  skip: Optional[Iterable[str]] = None, rules: Iterable[Rule] = (),
                  layout: str = "auto", keep_nonfinite: bool = False,
                  force: bool = False, threads: Union[int, Pool, None] = 0,
                  progress: Optional[Progress] = None) -> WriteSummary:
    """Quantizes a model: `nabla-quant quantize` as a function.

    path: a .safetensors file, an index or a folder. out: a .safetensors file, an index
    (.json) or a new folder. encoding: of tensors that no rule matches; None keeps them.
    only, skip: patterns of names. rules: the first that matches decides. progress:
    called with the part that is done and a tensor's name; what it returns, if true,
    or raises stops the call."""
    pool = handle_of(threads)
    told = _Told(progress, pool)
    plan = _Plan(path, encoding, block, scale, zero_point, search, only, skip, rules,
                 layout, keep_nonfinite, told.environment, pool, _is_file(out))
    return _write(told, LIB.nabla_plan_write, (plan.handle.value,), plan.checkpoint,
                  plan.handle.value, out, force)


def plan_file(path: Any, encoding: Optional[str] = None,
              block: Union[int, str, None] = None, *, scale: Optional[str] = None,
              zero_point: bool = False, search: bool = False,
              only: Optional[Iterable[str]] = None,
              skip: Optional[Iterable[str]] = None, rules: Iterable[Rule] = (),
              layout: str = "auto") -> List[PlanRow]:
    """What quantize_file with these arguments would do with each tensor."""
    plan = _Plan(path, encoding, block, scale, zero_point, search, only, skip, rules,
                 layout, False, environment(None), None, False)
    return plan.rows()


def dequantize_file(path: Any, out: Any, *, dtype: Optional[str] = None,
                    force: bool = False, threads: Union[int, Pool, None] = 0,
                    progress: Optional[Progress] = None) -> WriteSummary:
    """Writes a model with every packed tensor decoded, to the dtype that it had or to
    "f32", "f16" or "bf16"."""
    told = _Told(progress, handle_of(threads))
    checkpoint = open_checkpoint(path)
    how = _c.nabla_dequantize_options(
        struct_size=ctypes.sizeof(_c.nabla_dequantize_options))
    if dtype is not None:
        how.has_dtype, how.dtype = 1, _dtypes.to_c(dtype)
    return _write(told, LIB.nabla_dequantize, (checkpoint.value, byref(how)),
                  checkpoint, None, out, force)


def verify_file(path: Any) -> List[Error]:
    """The problems of a model, as exceptions that are not raised; none: []."""
    problems: List[Error] = []

    def problem(_: Any, diag: int) -> None:
        try:
            problems.append(error_of(_c.nabla_diag.from_address(diag)))
        except Exception as error:  # never out of a callback
            problems.append(Error(str(error)))

    told = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(problem)
    summary, diag = _c.nabla_verify_summary(), new_diag()
    status = LIB.nabla_verify(to_path(path), None,
                              ctypes.cast(told, ctypes.c_void_p).value, None,
                              byref(summary), byref(diag))
    if status and not problems:
        problems.append(error_of(diag))
    return problems


def compare_files(first: Any, second: Any) -> Dict[str, Difference]:
    """How tensors of two models differ by values; packed ones are decoded."""
    a, b = open_checkpoint(first), open_checkpoint(second)
    out: Dict[str, Difference] = {}
    told = _Told(None, None)

    def row(_: Any, address: int) -> int:
        try:
            it = _c.nabla_difference.from_address(address)
            name = it.name.decode()
            out[name] = Difference(name, it.max_abs, it.rel_rmse, it.cosine,
                                   it.problem.decode() if it.problem else None)
            return 0
        except BaseException as error:
            told.error = error
            return 1

    function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(row)
    summary = _c.nabla_difference_summary()
    told.call(LIB.nabla_compare, a.value, b.value, None,
              ctypes.cast(function, ctypes.c_void_p).value, None, byref(summary))
    return out
