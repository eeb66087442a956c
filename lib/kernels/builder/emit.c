/* Writing a kernel as MLIR text; see emit.h. */
#include "lib/kernels/builder/emit.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include "lib/base/c_locale.h"
#include "lib/kernels/builder/k.h"

const char *const nabla_type_f32[2] = {"f32", "vector<16xf32>"};
const char *const nabla_type_i32[2] = {"i32", "vector<16xi32>"};
const char *const nabla_type_i16[2] = {"i16", "vector<16xi16>"};
const char *const nabla_type_f16[2] = {"f16", "vector<16xf16>"};

/* The longest line of a kernel; a longer one is a failure. */
#define LINE_MAX_BYTES 1024

/* Formats a line; false, and failure, when it is too long. */
static bool format_line(nabla_emitter *e, char line[LINE_MAX_BYTES],
                        const char *format, va_list arguments) {
  const int length = nabla_c_vsnprintf(line, LINE_MAX_BYTES, format, arguments);
  if (length >= 0 && (size_t)length < LINE_MAX_BYTES) return true;
  e->text->failed = 1;
  return false;
}

/* The value of a constant operation, which is written on first use. */
static nabla_ssa find_constant(nabla_emitter *e, const char *line) {
  nabla_constants *all = e->constants;
  const size_t length = strlen(line);
  for (unsigned i = 0; i < all->count; i++)
    if (all->known[i].length == length &&
        !memcmp(all->text.data + all->known[i].at, line, length))
      return all->known[i].value;
  nabla_ssa result = ++e->last;
  nabla_text_add(&all->text, "  %%v%u = %s\n", result, line);
  if (all->count < NABLA_CONSTANTS_MAX && !all->text.failed) {
    all->known[all->count].at = all->text.size - length - 1;
    all->known[all->count].length = length;
    all->known[all->count++].value = result;
  }
  return result;
}

static nabla_ssa add_operation(nabla_emitter *e, const char *line) {
  if (e->constants && !strncmp(line, "arith.constant ", 15))
    return find_constant(e, line);
  nabla_text_add(e->text, "  %%v%u = %s\n", ++e->last, line);
  return e->last;
}

nabla_ssa nabla_emit(nabla_emitter *e, const char *format, ...) {
  char line[LINE_MAX_BYTES];
  va_list arguments;
  va_start(arguments, format);
  const bool good = format_line(e, line, format, arguments);
  va_end(arguments);
  return good ? add_operation(e, line) : 0;
}

nabla_ssa nabla_emit_taken(nabla_emitter *e, nabla_text *text) {
  if (text->failed) e->text->failed = 1;
  const nabla_ssa result = text->failed ? 0 : add_operation(e, text->data);
  nabla_text_deinit(text);
  return result;
}

void nabla_emit_line(nabla_emitter *e, const char *format, ...) {
  char line[LINE_MAX_BYTES];
  va_list arguments;
  va_start(arguments, format);
  if (format_line(e, line, format, arguments))
    nabla_text_add(e->text, "  %s\n", line);
  va_end(arguments);
  if (*line == '}') k_leave(e);
}

nabla_ssa nabla_emit_product(nabla_emitter *e, nabla_ssa a, nabla_ssa b) {
  return k_op(e, "arith.muli %%v%u, %%v%u overflow<nsw, nuw> : i64", a, b);
}

nabla_ssa nabla_emit_minimum(nabla_emitter *e, nabla_ssa a, nabla_ssa b) {
  return k_op(e, "arith.minui %%v%u, %%v%u : i64", a, b);
}

nabla_ssa nabla_emit_choice(nabla_emitter *e, nabla_ssa condition,
                            nabla_ssa yes, nabla_ssa no) {
  return k_op(e, "arith.select %%v%u, %%v%u, %%v%u : i64", condition, yes, no);
}

nabla_ssa nabla_emit_f32(nabla_emitter *e, nabla_shape shape, double value) {
  const char *type = nabla_type_f32[shape];
  return shape == NABLA_SCALAR
             ? k_op(e, "arith.constant %.17e : %s", value, type)
             : k_op(e, "arith.constant dense<%.17e> : %s", value, type);
}

nabla_ssa nabla_emit_select_f32(nabla_emitter *e, nabla_shape shape,
                                nabla_ssa condition, nabla_ssa yes,
                                nabla_ssa no) {
  return k_op(e, "arith.select %%v%u, %%v%u, %%v%u : %s%s", condition, yes, no,
              shape == NABLA_VECTOR ? "vector<16xi1>, " : "",
              nabla_type_f32[shape]);
}

static const char *comma(unsigned lane) { return lane ? ", " : ""; }

/* Writes "A, B, C" of values. */
static void list_values(nabla_emitter *e, unsigned count,
                        const nabla_ssa *values) {
  for (unsigned i = 0; i < count; i++)
    nabla_text_add(e->text, "%s%%v%u", comma(i), values[i]);
}

nabla_ssa nabla_emit_f32_lanes(nabla_emitter *e, const float *values) {
  nabla_text line = {0};
  nabla_text_add(&line, "arith.constant dense<[");
  for (unsigned i = 0; i < NABLA_LANES; i++) {
    nabla_text_add(&line, "%s", comma(i));
    nabla_text_add_float(&line, (double)values[i]);
  }
  nabla_text_add(&line, "]> : vector<16xf32>");
  return k_taken(e, &line);
}

nabla_ssa nabla_emit_i32(nabla_emitter *e, nabla_shape shape, uint32_t value) {
  const char *type = nabla_type_i32[shape];
  return shape == NABLA_SCALAR
             ? k_op(e, "arith.constant %" PRId32 " : %s", (int32_t)value, type)
             : k_op(e, "arith.constant dense<%" PRId32 "> : %s", (int32_t)value,
                    type);
}

nabla_ssa nabla_emit_i32_lanes(nabla_emitter *e, const uint32_t *values) {
  nabla_text line = {0};
  nabla_text_add(&line, "arith.constant dense<[");
  for (unsigned i = 0; i < NABLA_LANES; i++)
    nabla_text_add(&line, "%s%" PRIu32, comma(i), values[i]);
  nabla_text_add(&line, "]> : vector<16xi32>");
  return k_taken(e, &line);
}

nabla_ssa nabla_emit_mask(nabla_emitter *e, unsigned first, unsigned end) {
  nabla_text line = {0};
  nabla_text_add(&line, "arith.constant dense<[");
  for (unsigned i = 0; i < NABLA_LANES; i++)
    nabla_text_add(&line, "%s%s", comma(i),
                   i >= first && i < end ? "true" : "false");
  nabla_text_add(&line, "]> : vector<16xi1>");
  return k_taken(e, &line);
}

nabla_ssa nabla_emit_from_elements(nabla_emitter *e, const char *type,
                                   const nabla_ssa *values) {
  nabla_ssa result = ++e->last;
  nabla_text_add(e->text, "  %%v%u = vector.from_elements ", result);
  list_values(e, NABLA_LANES, values);
  nabla_text_add(e->text, " : vector<16x%s>\n", type);
  return result;
}

nabla_ssa nabla_emit_binary(nabla_emitter *e, nabla_shape shape,
                            const char *operation, nabla_ssa a, nabla_ssa b) {
  return k_op(e, "arith.%s %%v%u, %%v%u : %s", operation, a, b,
              nabla_type_f32[shape]);
}

/* fmuladd and not fma: where the target has no fused instruction, fma would
 * become a call of libm. */
nabla_ssa nabla_emit_fma(nabla_emitter *e, nabla_shape shape, nabla_ssa a,
                         nabla_ssa b, nabla_ssa c) {
  const char *type = nabla_type_f32[shape];
  return k_op(e,
              "llvm.intr.fmuladd(%%v%u, %%v%u, %%v%u) : (%s, %s, %s) -> "
              "%s",
              a, b, c, type, type, type, type);
}

nabla_ssa nabla_emit_broadcast(nabla_emitter *e, const char *type,
                               nabla_ssa value) {
  return k_op(e, "vector.broadcast %%v%u : %s to vector<16x%s>", value, type,
              type);
}

/* Explicit, not vector.reduction: the order is the same on every target. */
nabla_ssa nabla_emit_i32_binary(nabla_emitter *e, nabla_shape shape,
                                const char *operation, nabla_ssa a,
                                nabla_ssa b) {
  return k_op(e, "arith.%s %%v%u, %%v%u : %s", operation, a, b,
              nabla_type_i32[shape]);
}

nabla_ssa nabla_emit_i32_with(nabla_emitter *e, nabla_shape shape,
                              const char *operation, nabla_ssa a, uint32_t b) {
  return k_i32_binary(e, shape, operation, a, k_i32(e, shape, b));
}

nabla_ssa nabla_emit_bitcast(nabla_emitter *e, const char *from, const char *to,
                             nabla_ssa value) {
  return k_op(e, "vector.bitcast %%v%u : %s to %s", value, from, to);
}

unsigned nabla_pick_from(unsigned lane, unsigned context) {
  return lane + context;
}

unsigned nabla_pick_second(unsigned lane, unsigned context) {
  return 2 * lane + context;
}

nabla_ssa nabla_emit_shuffle(nabla_emitter *e, const char *element,
                             unsigned lanes, nabla_ssa a, nabla_ssa b,
                             unsigned count, nabla_pick *pick,
                             unsigned context) {
  nabla_text *text = e->text;
  nabla_ssa result = ++e->last;
  nabla_text_add(text, "  %%v%u = vector.shuffle %%v%u, %%v%u [", result, a, b);
  for (unsigned i = 0; i < count; i++)
    nabla_text_add(text, "%s%u", i ? ", " : "", pick(i, context));
  nabla_text_add(text, "] : vector<%ux%s>, vector<%ux%s>\n", lanes, element,
                 lanes, element);
  return result;
}

nabla_ssa nabla_emit_sum(nabla_emitter *e, nabla_ssa vector) {
  static const char *const halves[3][2] = {
      {"0, 1, 2, 3, 4, 5, 6, 7", "8, 9, 10, 11, 12, 13, 14, 15"},
      {"0, 1, 2, 3", "4, 5, 6, 7"},
      {"0, 1", "2, 3"}};
  nabla_ssa sum = vector;
  unsigned lanes = NABLA_LANES;
  for (int i = 0; i < 3; i++, lanes /= 2) {
    nabla_ssa half[2];
    for (int j = 0; j < 2; j++)
      half[j] = k_op(e,
                     "vector.shuffle %%v%u, %%v%u [%s] : vector<%uxf32>, "
                     "vector<%uxf32>",
                     sum, sum, halves[i][j], lanes, lanes);
    sum = k_op(e, "arith.addf %%v%u, %%v%u : vector<%uxf32>", half[0], half[1],
               lanes / 2);
  }
  nabla_ssa low =
      k_op(e, "vector.extract %%v%u[0] : f32 from vector<2xf32>", sum);
  nabla_ssa high =
      k_op(e, "vector.extract %%v%u[1] : f32 from vector<2xf32>", sum);
  return k_binary(e, NABLA_SCALAR, "addf", low, high);
}

nabla_ssa nabla_emit_load(nabla_emitter *e, const char *type, nabla_ssa base,
                          nabla_ssa byte, unsigned alignment) {
  nabla_ssa address = k_address(e, base, byte);
  return k_op(e, "llvm.load %%v%u {alignment = %u : i64} : !llvm.ptr -> %s",
              address, alignment, type);
}

void nabla_emit_store(nabla_emitter *e, const char *type, nabla_ssa value,
                      nabla_ssa base, nabla_ssa byte, unsigned alignment) {
  nabla_ssa address = k_address(e, base, byte);
  k_line(e, "llvm.store %%v%u, %%v%u {alignment = %u : i64} : %s, !llvm.ptr",
         value, address, alignment, type);
}

/* Prefetches a cache line to cache `level`. */
static void prefetch(nabla_emitter *e, nabla_ssa address, unsigned level) {
  k_line(e,
         "\"llvm.intr.prefetch\"(%%v%u) <{cache = 1 : i32, hint = %u : "
         "i32, rw = 0 : i32}> : (!llvm.ptr) -> ()",
         address, 4 - level);
}

void nabla_emit_prefetch(nabla_emitter *e, nabla_ssa base, nabla_ssa byte) {
  prefetch(e, k_address(e, base, byte), 1);
}

void nabla_emit_prefetch_far(nabla_emitter *e, nabla_ssa address) {
  prefetch(e, address, 2);
}

void nabla_emit_prefetch_write(nabla_emitter *e, nabla_ssa address) {
  k_line(e,
         "\"llvm.intr.prefetch\"(%%v%u) <{cache = 1 : i32, hint = 3 : i32, rw "
         "= 1 : i32}> : (!llvm.ptr) -> ()",
         address);
}

/* "A, B, C" of the types that a loop carries. */
static void list_types(nabla_emitter *e, const nabla_loop *loop) {
  for (unsigned i = 0; i < loop->count; i++)
    nabla_text_add(e->text, "%s%s", comma(i),
                   loop->types ? loop->types[i] : nabla_type_f32[NABLA_VECTOR]);
}

void nabla_loop_begin(nabla_emitter *e, nabla_loop *loop, nabla_ssa from,
                      nabla_ssa to, uint64_t step, unsigned count,
                      const nabla_ssa *initial) {
  nabla_loop_begin_of(e, loop, from, to, step, count, initial, NULL);
}

void nabla_loop_begin_of(nabla_emitter *e, nabla_loop *loop, nabla_ssa from,
                         nabla_ssa to, uint64_t step, unsigned count,
                         const nabla_ssa *initial, const char *const *types) {
  nabla_text *text = e->text;
  nabla_ssa by = k_i64(e, step);
  loop->count = count;
  loop->types = types;
  loop->is_open = 0;
  loop->induction = ++e->last;
  for (unsigned i = 0; i < count; i++) loop->carried[i] = ++e->last;
  for (unsigned i = 0; i < count; i++) loop->results[i] = ++e->last;
  nabla_text_add(text, "  ");
  list_values(e, count, loop->results);
  nabla_text_add(text, "%sscf.for %%v%u = %%v%u to %%v%u step %%v%u",
                 count ? " = " : "", loop->induction, from, to, by);
  if (count) {
    nabla_text_add(text, " iter_args(");
    for (unsigned i = 0; i < count; i++)
      nabla_text_add(text, "%s%%v%u = %%v%u", comma(i), loop->carried[i],
                     initial[i]);
    nabla_text_add(text, ") -> (");
    list_types(e, loop);
    nabla_text_add(text, ")");
  }
  nabla_text_add(text, " : i64 {\n");
}

void nabla_loop_end(nabla_emitter *e, nabla_loop *loop,
                    const nabla_ssa *yielded) {
  if (loop->count) {
    nabla_text_add(e->text, "  scf.yield ");
    list_values(e, loop->count, yielded);
    nabla_text_add(e->text, " : ");
    list_types(e, loop);
    nabla_text_add(e->text, "\n");
  }
  k_leave(e);
  nabla_text_add(e->text, "  }%s\n",
                 loop->is_open ? ""
                               : " {loop_annotation = #llvm.loop_annotation<"
                                 "vectorize = <disable = true>>}");
}
