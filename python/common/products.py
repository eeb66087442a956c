"""Products with packed weights."""
import ctypes
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

import numpy as np

from . import _c, _dtypes, _views
from ._errors import InvalidArgument
from ._library import LIB, Handle, Owner, byref, call, fail, new_diag
from .models import Weight
from .pools import Pool, environment, handle_of

_NUMERICS = {"f32": _c.NUMERICS_F32, "bf16": _c.NUMERICS_BF16,
             "int8": _c.NUMERICS_INT8}
_PROVIDERS = {"best": _c.MATMUL_BEST, "compiled": _c.MATMUL_COMPILED,
              "ahead": _c.MATMUL_AHEAD, "c": _c.MATMUL_C}


class PlanInfo(NamedTuple):
    """What a plan chose."""

    provider: str
    numerics: str
    is_prepacked: bool
    shape: Tuple[int, int]          #: of the weight
    packed_bytes: int               #: of a rearranged copy
    kernels: List[str]
    note: Optional[str]             #: why C computes, which is slower


def _choose(table: Dict[str, int], name: str, noun: str) -> int:
    if name not in table:
        raise InvalidArgument("%s is one of %s, not %r" % (noun, ", ".join(table),
                                                           name))
    return table[name]


class MatmulPlan(Owner):
    """y = x . w^T + bias, where the weight w stays packed. Kernels are chosen once; any
    number of threads may call a plan.

    numerics: the largest error that is accepted, "f32", "bf16" or "int8".
    prepacked: keep a rearranged copy of the weight if a kernel is faster with it.
    threads: 1, the calling thread; a number; or a Pool, which products share."""

    _noun = "plan"

    def __init__(self, weight: Weight, bias: Any = None, *, numerics: str = "f32",
                 prepacked: bool = False, provider: str = "best",
                 dtype: Any = np.float32, out_dtype: Any = None, m_max: int = 0,
                 threads: Union[int, Pool, None] = 1):
        if not isinstance(weight, Weight):
            raise TypeError("a plan is of a Weight, not of %r: quantize_array() makes one of "
                            "an array" % type(weight).__name__)
        if len(weight.shape) != 2:
            raise InvalidArgument("a product takes a matrix, and %r has rank %d: its "
                                  "matrix() has a row for each index of the first "
                                  "dimension" % (weight, len(weight.shape)))
        pool = handle_of(threads)
        self._x_dtype = np.dtype(dtype)
        self._y_dtype = np.dtype(dtype if out_dtype is None else out_dtype)
        how = _c.nabla_matmul_options(
            struct_size=ctypes.sizeof(_c.nabla_matmul_options),
            numerics=_choose(_NUMERICS, numerics, "numerics"),
            layout=_c.WEIGHT_LAYOUT_PREPACKED if prepacked else
            _c.WEIGHT_LAYOUT_IN_PLACE,
            provider=_choose(_PROVIDERS, provider, "a provider"),
            x_type=_dtypes.to_c(self._x_dtype), y_type=_dtypes.to_c(self._y_dtype),
            m_max=m_max, environment=environment(pool))
        if bias is not None:
            bias = _views.contiguous(bias, self._y_dtype)
            how.bias, how.bias_bytes = _views.address(bias), bias.nbytes
        diag = new_diag()
        out = ctypes.c_void_p()
        if LIB.nabla_matmul_plan_create(byref(weight._desc), byref(how), byref(out),
                                        byref(diag)):
            fail(diag)
        self._keep = (weight, bias)
        free = LIB.nabla_matmul_plan_destroy

        def destroy(plan: int, _keep: Any = self._keep) -> None:
            free(plan)

        self._handle = Handle(out.value or 0, destroy, *([pool] if pool else []))
        self._n, self._k = weight.shape
        self._m_max = m_max
        self._spaces: Dict[int, List[Any]] = {}
        self._run = LIB.nabla_matmul_plan_run

    def _space(self, handle: Handle, m: int) -> Any:
        """A workspace for m rows, and its address, which no other run uses."""
        spaces = self._spaces.get(m)
        if spaces is None:
            spaces = self._spaces[m] = []
        try:
            return spaces.pop()
        except IndexError:
            size = LIB.nabla_matmul_plan_workspace_size(handle.value, m)
            if size == 2 ** 64 - 1:
                raise InvalidArgument("%d rows; the plan allows %d" % (
                    m, self._m_max)) from None
            block = _views.aligned((size,), np.uint8) if size else None
            return block, _views.address(block) if size else None

    def __call__(self, x: Any, out: Optional[Any] = None) -> Any:
        """Multiplies: x has the dtype of the plan and the shape (..., K), the result
        (..., N)."""
        handle = self._handle
        if handle is None:
            handle = self._open()
        if type(x) is not np.ndarray or x.dtype != self._x_dtype or \
                not x.flags.c_contiguous:
            x = self._take(x)
        shape = x.shape
        if not shape or shape[-1] != self._k:
            raise InvalidArgument("x has shape %s, whose last dimension is not %d" % (
                list(shape), self._k))
        m = shape[0] if len(shape) == 2 else x.size // self._k if self._k else 1
        if out is None:
            out = np.empty(shape[:-1] + (self._n,), self._y_dtype)
        elif type(out) is not np.ndarray or out.dtype != self._y_dtype or \
                out.shape != shape[:-1] + (self._n,) or \
                not out.flags.c_contiguous or not out.flags.writeable:
            raise InvalidArgument("out is no writable row-major array of dtype %s and "
                                  "shape %s" % (self._y_dtype,
                                                list(shape[:-1] + (self._n,))))
        elif np.may_share_memory(x, out):
            raise InvalidArgument("out overlaps x")
        space = self._space(handle, m)
        status = self._run(handle.value, x.__array_interface__["data"][0], m,
                           out.__array_interface__["data"][0], space[1], None)
        if status:  # nothing was written: once more, for the reason
            call(self._run, handle.value, _views.address(x), m, _views.address(out),
                 space[1])
        spaces = self._spaces.get(m)
        if spaces is not None and len(spaces) < 4:
            spaces.append(space)
        if len(self._spaces) > 64:
            self._spaces = {}
        return out

    def _take(self, x: Any) -> Any:
        x = np.asarray(x)
        if x.dtype != self._x_dtype:
            raise InvalidArgument("x has dtype %s, the plan %s" % (x.dtype,
                                                                   self._x_dtype))
        return x if x.flags.c_contiguous else np.ascontiguousarray(x)

    @property
    def info(self) -> PlanInfo:
        """The kernels, and the reason where C computes."""
        out = _c.nabla_matmul_info()
        LIB.nabla_matmul_plan_describe(self._open().value, byref(out))
        return PlanInfo(
            LIB.nabla_matmul_provider_name(out.provider).decode(),
            LIB.nabla_numerics_name(out.numerics).decode(),
            out.layout == _c.WEIGHT_LAYOUT_PREPACKED, (out.n, out.k), out.packed_bytes,
            [k.name.decode() for k in out.kernels[:out.kernel_count]],
            out.note.decode() if out.note else None)

    def __repr__(self) -> str:
        return "<MatmulPlan %d x %d%s>" % (self._n, self._k,
                                           " closed" if self.closed else "")
