"""Dtypes of NumPy and of C."""
from typing import Any, Dict

import numpy as np

from . import _c
from ._errors import Unsupported

_NAMES = {"BOOL": "bool", "U8": "uint8", "I8": "int8", "I16": "int16", "U16": "uint16",
          "F16": "float16", "I32": "int32", "U32": "uint32", "F32": "float32",
          "C64": "complex64", "F64": "float64", "I64": "int64", "U64": "uint64"}
_DTYPES = {name[len("NABLA_DTYPE_"):]: number
           for name, number in _c.ENUMS["nabla_dtype"].items()}
_DTYPES.pop("COUNT")
C_NAMES: Dict[int, str] = {number: name for name, number in _DTYPES.items()}
TO_NUMPY: Dict[int, Any] = {_DTYPES[c]: np.dtype(n) for c, n in _NAMES.items()}
TO_C: Dict[Any, int] = {dtype: number for number, dtype in TO_NUMPY.items()}
_BY_TEXT: Dict[str, int] = {str(d): number for d, number in TO_C.items()}
_BY_TEXT.update({name.lower(): number for name, number in _DTYPES.items()})
_BY_TEXT["bfloat16"] = _DTYPES["BF16"]
try:
    import ml_dtypes
    TO_NUMPY[_DTYPES["BF16"]] = np.dtype(ml_dtypes.bfloat16)
    TO_C[np.dtype(ml_dtypes.bfloat16)] = _DTYPES["BF16"]
except ImportError:
    pass


def name_of(number: int) -> str:
    """"f32", as safetensors names it, in small letters."""
    return C_NAMES[number].lower()


def to_c(dtype: Any) -> int:
    """The number of a dtype that is one of NumPy, or a name: "f32", "float32"."""
    if isinstance(dtype, str):
        found = _BY_TEXT.get(dtype.lower())
    else:
        try:
            found = TO_C.get(np.dtype(dtype))
        except TypeError:
            found = _BY_TEXT.get(getattr(dtype, "name", None) or str(dtype))
    if found is None:
        raise Unsupported("there is no dtype %r" % (dtype,))
    return found


def to_numpy(number: int) -> Any:
    """NumPy's dtype; bf16 needs the package ml_dtypes."""
    found = TO_NUMPY.get(number)
    if found is None:
        raise Unsupported("NumPy has no dtype %s%s" % (
            name_of(number), " (the package ml_dtypes has)"
            if name_of(number) == "bf16" else ""))
    return found
