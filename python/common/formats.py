"""Encodings: how packed values are stored."""
from typing import Any, Dict, NamedTuple, Optional, Tuple, Union

import ctypes

from . import _c
from ._errors import InvalidArgument
from ._library import LIB, byref, call

_GRANULARITIES = {_c.PER_BLOCK: "block", _c.PER_ROW: "row", _c.PER_TENSOR: "tensor"}


class Encoding(NamedTuple):
    """A row of the table of encodings."""

    name: str
    summary: str
    bits: int


class Format(NamedTuple):
    """An encoding with its parameters."""

    encoding: str        #: "nf4", or of a GGUF file "q4_0" or "ggml<mxfp4>"
    granularity: str     #: what shares a scale: "block", "row" or "tensor"
    block: int           #: values for each scale
    scale: str           #: how scales are stored: "f32", "f16", "bf16", "e8m0", ...
    zero_point: bool


def encodings() -> Dict[str, Encoding]:
    """All encodings by name; GGUF's block formats are there too: "ggml<mxfp4>" has the
    name of an encoding and is another one."""
    count = ctypes.c_size_t()
    out = {}
    first = LIB.nabla_encodings(byref(count))
    for row in (_c.nabla_encoding * count.value).from_address(first):
        out[row.name.decode()] = Encoding(row.name.decode(), row.summary.decode(),
                                          row.bits)
    first = LIB.nabla_ggml_formats(byref(count))
    for block in (_c.nabla_ggml * count.value).from_address(first):
        name = ggml_name(block)
        out[name] = Encoding(name, block.summary.decode(),
                             8 * block.bytes // block.elements)
    return out


def ggml_name(block: Any) -> str:
    """The name of a format of GGUF's blocks: as in the dialect where an encoding has the
    plain one."""
    name = block.name.decode()
    return "ggml<%s>" % name if LIB.nabla_encoding_find(block.name) else name


def _ggml(name: str) -> int:
    """The address of the format of blocks that is called "q4_0" or "ggml<q4_0>", or 0."""
    is_long = name.startswith("ggml<") and name.endswith(">")
    if not is_long and LIB.nabla_encoding_find(name.encode()):
        return 0
    return LIB.nabla_ggml_find((name[5:-1] if is_long else name).encode()) or 0


def find(name: str) -> Any:
    """The address of an encoding."""
    found = LIB.nabla_encoding_find(name.encode())
    if not found:
        raise InvalidArgument("there is no encoding %r; there are %s" % (
            name, ", ".join(sorted(encodings()))))
    return found


def scale_type(name: str) -> int:
    out = ctypes.c_int()
    if not LIB.nabla_scale_type_find(name.encode(), byref(out)):
        raise InvalidArgument("there is no scale type %r" % name)
    return out.value


def scale_name(number: int) -> str:
    info = LIB.nabla_scale_info_of(number)
    return _c.nabla_scale_info.from_address(info).option.decode() if info else "?"


def to_storage(encoding: str, block: Union[int, str, None] = None,
               scale: Optional[str] = None, zero_point: bool = False,
               shape: Tuple[int, ...] = ()) -> Any:
    """A nabla_storage. `block` is a number of values, "row" or "tensor"."""
    ggml = _ggml(encoding)
    if ggml:
        if block is not None or scale is not None or zero_point:
            raise InvalidArgument("%s has blocks and scales of its own: it takes no block, "
                                  "scale or zero_point" % encoding)
        return _c.nabla_storage(kind=_c.STORAGE_BLOCKS, ggml=ggml)
    found = find(encoding)
    row = _c.nabla_encoding.from_address(found)
    format_ = _c.nabla_format(encoding=found, zero_point=int(zero_point))
    if row.is_mx:
        scale, block = scale or "e8m0", block or _c.BLOCK_MX
    if scale is not None:
        format_.scale = scale_type(scale)
    if block == "row":
        format_.granularity, format_.block = _c.PER_ROW, shape[-1] if shape else 0
    elif block == "tensor":
        size = 1
        for dim in shape:
            size *= dim
        format_.granularity, format_.block = _c.PER_TENSOR, size
    elif block is None or isinstance(block, int):
        format_.block = block or 64
    else:
        raise InvalidArgument("a block is a number, \"row\" or \"tensor\", not %r" %
                              (block,))
    if block != "tensor" and block != "row":
        sizes = _c.nabla_packed_size()
        call(LIB.nabla_format_size, byref(format_), 0, byref(sizes))
    return _c.nabla_storage(kind=_c.STORAGE_PLANES, format=format_)


def of_format(format_: Any) -> Optional[Format]:
    if not format_.encoding:
        return None
    row = _c.nabla_encoding.from_address(format_.encoding)
    return Format(row.name.decode(), _GRANULARITIES[format_.granularity],
                  format_.block, scale_name(format_.scale), bool(format_.zero_point))


def of_storage(layout: Any) -> Optional[Format]:
    """None where values are dense."""
    if layout.kind == _c.STORAGE_PLANES:
        return of_format(layout.format)
    if layout.kind == _c.STORAGE_BLOCKS:
        row = _c.nabla_ggml.from_address(layout.ggml)
        scale = "e8m0" if row.name == b"mxfp4" else "f16"
        return Format(ggml_name(row), "block", row.elements, scale, False)
    return None
