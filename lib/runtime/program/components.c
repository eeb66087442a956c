/* See components.h. */
#include "lib/runtime/program/components.h"

#include "lib/base/checked.h"

static nabla_port_component list(const char *name, nabla_dtype dtype,
                                 uint64_t count) {
  return (nabla_port_component){name, dtype, 1, count,
                                count * (nabla_dtype_bits(dtype) / 8)};
}

/* Scales: of their type, or in 8 bits with what these need (FORMAT.md, N6). */
static uint32_t add_scales(const nabla_port *port, uint64_t scales,
                           nabla_port_component *out) {
  if (port->format.scale != NABLA_SCALE_DYNAMIC8) {
    out[0] =
        list("scales", nabla_scale_info_of(port->format.scale)->dtype, scales);
    return 1;
  }
  out[0] = list("scales.codes", NABLA_DTYPE_U8, scales);
  out[1] = list("scales.scales", NABLA_DTYPE_F32,
                nabla_ceil_div_u64(scales, port->nested_block));
  out[2] = list("scales.offset", NABLA_DTYPE_F32, 1);
  out[2].rank = 0;
  out[3] = list("scales.map", NABLA_DTYPE_F32, NABLA_DYNAMIC8_CODES);
  return 4;
}

uint32_t nabla_port_components(
    const nabla_port *port,
    nabla_port_component out[NABLA_WEIGHT_MAX_COMPONENTS], nabla_diag *diag) {
  const nabla_format *format = &port->format;
  uint64_t elements = 1;
  nabla_packed_size size;
  for (uint32_t i = 0; i < port->rank; i++)
    if (!nabla_mul_u64(elements, (uint64_t)port->shape[i], &elements))
      return (void)!nabla_fail(diag, NABLA_TOO_LARGE, "the shape overflows"), 0;
  if (nabla_format_size(format, elements, &size, diag)) return 0;
  const nabla_dtype codes =
      format->encoding->bits == 8 ? NABLA_DTYPE_I8 : NABLA_DTYPE_U8;
  out[0] = list("codes", codes, size.code_bytes);
  uint32_t count = 1 + add_scales(port, size.scales, out + 1);
  if (format->zero_point)
    out[count++] = list("zero_points", NABLA_DTYPE_U8, size.scales);
  return count;
}
