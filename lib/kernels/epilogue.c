/* Epilogues of kernels; see epilogue.h. */
#include "lib/kernels/epilogue.h"

#include <stdio.h>
#include <string.h>

#include "lib/kernels/builder/k.h"

/* Text under construction that names its values PREFIX_1, PREFIX_2, ... */
typedef struct wide {
  nabla_text *text;
  const char *prefix;
  char f64[64], i64[64]; /* the types as wide as the input's */
  int is_vector;
  unsigned last;
} wide;

/* "vector<16xf32>" to "vector<16xf64>": the element type is a suffix. */
static void replace_element(const char *type, const char *element, char *out,
                            size_t size) {
  const char *at = strstr(type, "f32");
  int before = at ? (int)(at - type) : 0;
  (void)snprintf(out, size, "%.*s%s%s", before, type, element,
                 at ? at + 3 : "");
}

static unsigned f64_constant(wide *w, double value) {
  nabla_text_add(w->text, "  %s_%u = arith.constant ", w->prefix, ++w->last);
  if (w->is_vector) nabla_text_add(w->text, "dense<");
  nabla_text_add_float(w->text, value);
  nabla_text_add(w->text, "%s : %s\n", w->is_vector ? ">" : "", w->f64);
  return w->last;
}

static unsigned i64_constant(wide *w, long long value) {
  nabla_text_add(w->text, "  %s_%u = arith.constant %s%lld%s : %s\n", w->prefix,
                 ++w->last, w->is_vector ? "dense<" : "", value,
                 w->is_vector ? ">" : "", w->i64);
  return w->last;
}

static unsigned binary(wide *w, const char *operation, unsigned a, unsigned b,
                       const char *type) {
  nabla_text_add(w->text, "  %s_%u = arith.%s %s_%u, %s_%u : %s\n", w->prefix,
                 w->last + 1, operation, w->prefix, a, w->prefix, b, type);
  return ++w->last;
}

static unsigned cast(wide *w, const char *operation, unsigned a,
                     const char *from, const char *to) {
  nabla_text_add(w->text, "  %s_%u = arith.%s %s_%u : %s to %s\n", w->prefix,
                 w->last + 1, operation, w->prefix, a, from, to);
  return ++w->last;
}

/* `value` where it compares so with `limit`, else `limit`. NaN stays, by an
 * unordered comparison. */
static unsigned clamp(wide *w, const char *comparison, unsigned value,
                      double limit) {
  unsigned bound = f64_constant(w, limit);
  unsigned keep = ++w->last;
  nabla_text_add(w->text, "  %s_%u = arith.cmpf %s, %s_%u, %s_%u : %s\n",
                 w->prefix, keep, comparison, w->prefix, value, w->prefix,
                 bound, w->f64);
  nabla_text_add(
      w->text, "  %s_%u = arith.select %s_%u, %s_%u, %s_%u : ", w->prefix,
      ++w->last, w->prefix, keep, w->prefix, value, w->prefix, bound);
  if (w->is_vector) { /* a vector of conditions, as long as the others */
    char bits[64];
    const char *at = strstr(w->f64, "f64");
    int before = at ? (int)(at - w->f64) : 0;
    (void)snprintf(bits, sizeof bits, "%.*si1>", before, w->f64);
    nabla_text_add(w->text, "%s, ", bits);
  }
  nabla_text_add(w->text, "%s\n", w->f64);
  return w->last;
}

/* 2^t for |t| < 1000 to 2^-31: 2^n by the exponent's bits, where n is t
 * rounded by adding 1.5 * 2^52, and 2^(t - n) by the series of exp. */
static unsigned exp2_of(wide *w, unsigned t) {
  static const double factorial[] = {1, 1, 2, 6, 24, 120, 720, 5040, 40320};
  unsigned magic = f64_constant(w, 0x1.8p52);
  unsigned shifted = binary(w, "addf", t, magic, w->f64);
  unsigned whole = binary(w, "subf", shifted, magic, w->f64);
  unsigned rest = binary(w, "subf", t, whole, w->f64);
  rest = binary(w, "mulf", rest, f64_constant(w, 0x1.62e42fefa39efp-1), w->f64);
  unsigned sum = f64_constant(w, 1 / factorial[8]);
  for (int i = 7; i >= 0; i--) {
    sum = binary(w, "mulf", sum, rest, w->f64);
    sum = binary(w, "addf", sum, f64_constant(w, 1 / factorial[i]), w->f64);
  }
  unsigned power = cast(w, "bitcast", shifted, w->f64, w->i64);
  power = binary(w, "addi", power, i64_constant(w, 1023), w->i64);
  power = binary(w, "shli", power, i64_constant(w, 52), w->i64);
  power = cast(w, "bitcast", power, w->i64, w->f64);
  return binary(w, "mulf", sum, power, w->f64);
}

/* In f64, where neither exp overflows nor a quotient is subnormal, and one
 * rounding remains. Below -150 the result is -0 in f32. */
void nabla_emit_silu(nabla_text *text, const char *type, const char *in,
                     const char *out_name) {
  wide w = {.text = text, .prefix = out_name, .is_vector = *type == 'v'};
  replace_element(type, "f64", w.f64, sizeof w.f64);
  replace_element(type, "i64", w.i64, sizeof w.i64);
  nabla_text_add(text, "  %s_%u = arith.extf %s : %s to %s\n", out_name,
                 ++w.last, in, type, w.f64);
  unsigned x = clamp(&w, "uge", w.last, -150);
  unsigned t = binary(&w, "mulf", clamp(&w, "ule", x, 150),
                      f64_constant(&w, -0x1.71547652b82fep0), w.f64);
  unsigned below =
      binary(&w, "addf", exp2_of(&w, t), f64_constant(&w, 1), w.f64);
  unsigned result = binary(&w, "divf", x, below, w.f64);
  nabla_text_add(text, "  %s = arith.truncf %s_%u : %s to %s\n", out_name,
                 out_name, result, w.f64, type);
}

/* max(x, 0) that keeps NaN and gives +0 for -0. */
static nabla_ssa relu(nabla_emitter *e, nabla_shape shape, nabla_ssa value) {
  const char *type = nabla_type_f32[shape];
  nabla_ssa zero = k_f32(e, shape, 0);
  nabla_ssa keep =
      k_op(e, "arith.cmpf ugt, %%v%u, %%v%u : %s", value, zero, type);
  return k_op(e, "arith.select %%v%u, %%v%u, %%v%u : %s%s", keep, value, zero,
              shape == NABLA_VECTOR ? "vector<16xi1>, " : "", type);
}

static nabla_ssa silu(nabla_emitter *e, nabla_shape shape, nabla_ssa value) {
  char in[32], out[32];
  nabla_ssa result = ++e->last;
  (void)snprintf(in, sizeof in, "%%v%u", value);
  (void)snprintf(out, sizeof out, "%%v%u", result);
  nabla_emit_silu(e->text, nabla_type_f32[shape], in, out);
  return result;
}

nabla_ssa nabla_emit_epilogue(nabla_emitter *e, nabla_shape shape,
                              nabla_ssa value, nabla_ssa row, nabla_ssa column,
                              unsigned width) {
  const nabla_fused_spec *spec = e->spec;
  for (uint32_t i = 0; i < spec->step_count; i++) {
    nabla_array_ref operand = {e->operands[i], spec->y_type};
    nabla_ssa index = column;
    switch (spec->steps[i]) {
      case NABLA_STEP_ADD:
        index = k_add(e, k_product(e, row, e->n), column);
        /* fall through */
      case NABLA_STEP_BIAS: {
        nabla_ssa other = shape == NABLA_SCALAR
                              ? k_read(e, operand, index)
                              : k_read_lanes(e, operand, index, width);
        value = k_binary(e, shape, "addf", value, other);
        break;
      }
      case NABLA_STEP_RELU:
        value = relu(e, shape, value);
        break;
      case NABLA_STEP_SILU:
        value = silu(e, shape, value);
        break;
    }
  }
  return value;
}
