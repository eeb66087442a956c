/* See conv.h and conv_parts.h. */
#include "lib/kernels/conv/conv.h"

#include "lib/kernels/builder/vector_function.h"
#include "lib/kernels/conv/conv_parts.h"

/* Outputs of a group up to which vectors are loaded for each product: packing
 * would cost more. */
#define MOST_OUTPUTS_OF_ROWS 3

static uint64_t product(const uint64_t v[NABLA_CONV_DIMS]) {
  return v[0] * v[1] * v[2];
}

uint64_t nabla_conv_positions(const nabla_conv_spec *spec) {
  return product(spec->window);
}
uint64_t nabla_conv_windows(const nabla_conv_spec *spec) {
  return product(spec->out);
}
uint64_t nabla_conv_plane(const nabla_conv_spec *spec) {
  return product(spec->in);
}
uint64_t nabla_conv_depth(const nabla_conv_spec *spec) {
  return spec->features * product(spec->window);
}

uint64_t nabla_conv_pitch(const nabla_conv_spec *spec, int dim) {
  uint64_t pitch = 1;
  for (int i = NABLA_CONV_DIMS; --i > dim;) pitch *= spec->in[i];
  return pitch;
}

uint64_t nabla_conv_reach(const nabla_conv_spec *spec, int dim) {
  return (spec->out[dim] - 1) * spec->stride[dim] +
         (spec->window[dim] - 1) * spec->dilation[dim] + 1;
}

int nabla_conv_is_padded(const nabla_conv_spec *spec, int dim) {
  return spec->low[dim] > 0 || (int64_t)nabla_conv_reach(spec, dim) >
                                   (int64_t)spec->in[dim] + spec->low[dim];
}

int nabla_conv_is_any_padded(const nabla_conv_spec *spec) {
  for (int i = 0; i < NABLA_CONV_DIMS; i++)
    if (nabla_conv_is_padded(spec, i)) return 1;
  return 0;
}

nabla_ssa nabla_conv_origin(const nabla_conv_body *b, nabla_ssa image) {
  int64_t at = 0;
  for (int i = 0; i < NABLA_CONV_DIMS; i++)
    at -= b->spec->low[i] * (int64_t)nabla_conv_pitch(b->spec, i);
  return at ? nabla_conv_address(b->e, image, k_i64(b->e, 4 * (uint64_t)at))
            : image;
}

nabla_ssa nabla_conv_subtract(nabla_emitter *e, nabla_ssa a, nabla_ssa b) {
  return k_op(e, "arith.subi %%v%u, %%v%u : i64", a, b);
}

nabla_ssa nabla_conv_least(nabla_emitter *e, nabla_ssa a, nabla_ssa b) {
  nabla_ssa less = k_op(e, "arith.cmpi slt, %%v%u, %%v%u : i64", a, b);
  return k_choice(e, less, a, b);
}

nabla_ssa nabla_conv_rest(nabla_emitter *e, nabla_ssa a, uint64_t b) {
  if (b == 1) return k_i64(e, 0);
  return k_op(e, "arith.remui %%v%u, %%v%u : i64", a, k_i64(e, b));
}

nabla_ssa nabla_conv_offset(const nabla_conv_body *b, nabla_ssa k) {
  nabla_emitter *e = b->e;
  const nabla_conv_spec *spec = b->spec;
  const uint64_t positions = nabla_conv_positions(spec);
  nabla_ssa at =
      k_multiply(e, k_divide(e, k, positions), 4 * nabla_conv_plane(spec));
  nabla_ssa left = nabla_conv_rest(e, k, positions);
  for (int i = NABLA_CONV_DIMS; i-- > 0;) {
    if (spec->window[i] == 1) continue;
    nabla_ssa place = nabla_conv_rest(e, left, spec->window[i]);
    left = k_divide(e, left, spec->window[i]);
    at = k_add(e, at,
               k_multiply(e, place,
                          4 * spec->dilation[i] * nabla_conv_pitch(spec, i)));
  }
  return at;
}

nabla_ssa nabla_conv_row(const nabla_conv_body *b, nabla_ssa row) {
  nabla_emitter *e = b->e;
  const nabla_conv_spec *spec = b->spec;
  nabla_ssa outer = k_divide(e, row, spec->out[1]);
  nabla_ssa inner = nabla_conv_rest(e, row, spec->out[1]);
  return k_add(
      e, k_multiply(e, outer, spec->stride[0] * nabla_conv_pitch(spec, 0)),
      k_multiply(e, inner, spec->stride[1] * nabla_conv_pitch(spec, 1)));
}

nabla_ssa nabla_conv_address(nabla_emitter *e, nabla_ssa base,
                             nabla_ssa bytes) {
  return k_op(e,
              "llvm.getelementptr %%v%u[%%v%u] : (!llvm.ptr, i64) -> "
              "!llvm.ptr, i8",
              base, bytes);
}

nabla_ssa nabla_conv_load(nabla_emitter *e, nabla_ssa address, nabla_ssa mask,
                          nabla_ssa rest) {
  return k_op(e,
              "llvm.intr.masked.load %%v%u, %%v%u, %%v%u {alignment = 4 : "
              "i32} : (!llvm.ptr, vector<16xi1>, vector<16xf32>) -> "
              "vector<16xf32>",
              address, mask, rest);
}

void nabla_conv_store(nabla_emitter *e, nabla_ssa address, nabla_ssa mask,
                      nabla_ssa value) {
  k_line(e,
         "llvm.intr.masked.store %%v%u, %%v%u, %%v%u {alignment = 4 : i32} : "
         "vector<16xf32>, vector<16xi1> into !llvm.ptr",
         value, address, mask);
}

nabla_ssa nabla_conv_gather(nabla_emitter *e, nabla_ssa address,
                            nabla_ssa elements, nabla_ssa mask) {
  nabla_ssa all = k_op(e,
                       "llvm.getelementptr %%v%u[%%v%u] : (!llvm.ptr, "
                       "vector<16xi32>) -> vector<16x!llvm.ptr>, f32",
                       address, elements);
  return k_op(e,
              "llvm.intr.masked.gather %%v%u, %%v%u, %%v%u {alignment = 4 : "
              "i32} : (vector<16x!llvm.ptr>, vector<16xi1>, vector<16xf32>) -> "
              "vector<16xf32>",
              all, mask, k_f32(e, NABLA_VECTOR, 0));
}

nabla_ssa nabla_conv_finished(const nabla_conv_body *b, nabla_ssa feature,
                              nabla_ssa element, nabla_ssa mask,
                              nabla_ssa value) {
  const nabla_conv_spec *spec = b->spec;
  const nabla_conv_place place = {feature, element, mask, b->operands};
  return spec->epilogue
             ? spec->epilogue(b->e, spec->epilogue_self, &place, value)
             : value;
}

/* ---- the choice ---------------------------------------------------------- */

static int is_by_rows(const nabla_conv_spec *spec) {
  return spec->outputs <= MOST_OUTPUTS_OF_ROWS;
}

const char *nabla_conv_kernel(const nabla_conv_spec *spec) {
  return is_by_rows(spec) ? "rows" : "panels";
}

/* Vectors of places are of 32 bits; other numbers stay far from 2^63. */
const char *nabla_conv_objection(const nabla_conv_spec *spec) {
  const uint64_t most = (uint64_t)1 << 30;
  uint64_t image = spec->features;
  uint64_t padded = spec->features;
  uint64_t kernel = spec->features;
  uint64_t result = spec->outputs;
  for (int i = 0; i < NABLA_CONV_DIMS; i++) {
    if (spec->stride[i] > most || spec->dilation[i] > most ||
        spec->out[i] > most || spec->window[i] > most || spec->in[i] > most)
      return "its sizes are too large for a kernel";
    if (__builtin_mul_overflow(image, spec->in[i], &image) ||
        __builtin_mul_overflow(padded, nabla_conv_reach(spec, i), &padded) ||
        __builtin_mul_overflow(kernel, spec->window[i], &kernel) ||
        __builtin_mul_overflow(result, spec->out[i], &result))
      return "its sizes are too large for a kernel";
  }
  return image > most || padded > most || kernel > most || result > most ||
                 spec->groups > most || spec->outputs > most
             ? "its sizes are too large for a kernel"
             : NULL;
}

int nabla_conv_pads(const nabla_conv_spec *spec) {
  for (int i = 0; i < NABLA_CONV_DIMS; i++)
    if (spec->low[i] > 1 << 20 || spec->low[i] < -(1 << 30)) return 0;
  return is_by_rows(spec) ? nabla_conv_rows_pads(spec)
                          : nabla_conv_panels_pads(spec);
}

uint64_t nabla_conv_units(const nabla_conv_spec *spec) {
  return is_by_rows(spec) ? nabla_conv_rows_units(spec)
                          : nabla_conv_panels_units(spec);
}

uint64_t nabla_conv_unit_products(const nabla_conv_spec *spec) {
  return is_by_rows(spec) ? nabla_conv_rows_products(spec)
                          : nabla_conv_panels_products(spec);
}

static void write_body(nabla_emitter *e, void *self) {
  const nabla_conv_spec *spec = self;
  nabla_conv_body b = {.e = e,
                       .spec = spec,
                       .x = nabla_vector_function_pointer(e, NABLA_CONV_X),
                       .w = nabla_vector_function_pointer(e, NABLA_CONV_W),
                       .y = nabla_vector_function_pointer(e, NABLA_CONV_Y)};
  for (int i = 0; i < spec->operand_count; i++)
    b.operands[i] =
        nabla_vector_function_pointer(e, (unsigned)(NABLA_CONV_WORDS + i));
  if (is_by_rows(spec))
    nabla_conv_rows(&b);
  else
    nabla_conv_panels(&b);
}

void nabla_conv_emit(const nabla_conv_spec *spec, const char *name,
                     nabla_text *text) {
  nabla_conv_spec copy = *spec;
  nabla_vector_function_emit(spec->features_of_cpu, name,
                             is_by_rows(spec) ? nabla_conv_rows_scratch(spec)
                                              : nabla_conv_panels_scratch(spec),
                             write_body, &copy, text);
}
