/* Parts that the kernels of attention share; see attend.h. */
#include "lib/kernels/attention/attend.h"

#include <string.h>

#include "lib/kernels/builder/exp.h"

#define MINUS_INFINITY 0xff800000u /* its bits */

static nabla_ssa minus_infinity(nabla_emitter *e) {
  return k_bitcast(e, nabla_type_i32[NABLA_VECTOR],
                   nabla_type_f32[NABLA_VECTOR],
                   k_i32(e, NABLA_VECTOR, MINUS_INFINITY));
}

/* ---- sizes ----------------------------------------------------------------
 */

uint64_t nabla_attend_padded(uint64_t width) {
  return (width + NABLA_LANES - 1) / NABLA_LANES * NABLA_LANES;
}

unsigned nabla_attend_chunks(const nabla_attention_spec *spec) {
  return (unsigned)(nabla_attend_padded(spec->value_head) / NABLA_LANES);
}

unsigned nabla_attend_lanes(uint64_t width, unsigned chunk) {
  const uint64_t left = width - (uint64_t)chunk * NABLA_LANES;
  return left < NABLA_LANES ? (unsigned)left : NABLA_LANES;
}

uint64_t nabla_attend_kv_size(const nabla_attention_spec *spec) {
  return spec->kv_type == NABLA_DTYPE_F32 ? 4 : 2;
}

uint64_t nabla_attend_state_floats(const nabla_attention_spec *spec) {
  return NABLA_ATTEND_WEIGHTED + nabla_attend_padded(spec->value_head);
}

uint64_t nabla_attention_state_bytes(const nabla_attention_spec *spec) {
  return nabla_attend_state_floats(spec) * 4;
}

nabla_ssa nabla_attend_kv_row(nabla_attend *a, const nabla_attend_array *of,
                              nabla_ssa outer, nabla_ssa row) {
  nabla_emitter *e = a->e;
  nabla_ssa batch = k_op(e, "arith.divui %%v%u, %%v%u : i64", outer, a->heads);
  nabla_ssa head = k_op(e, "arith.remui %%v%u, %%v%u : i64", outer, a->heads);
  nabla_ssa index =
      k_add(e, k_product(e, batch, of->batch), k_product(e, head, of->head));
  index = k_add(e, index, k_product(e, row, of->row));
  return k_address(e, of->base,
                   k_multiply(e, index, nabla_attend_kv_size(a->spec)));
}

/* ---- a function ----------------------------------------------------------
 */

typedef struct function {
  const nabla_attention_spec *spec;
  void (*write)(nabla_attend *a, uint64_t rows);
  uint64_t rows;
} function;

/* The scale as f32, in all lanes. */
static nabla_ssa load_scale(nabla_emitter *e) {
  nabla_ssa bits = k_op(e, "arith.trunci %%v%u : i64 to i32",
                        nabla_emit_argument(e, NABLA_ATTENTION_SCALE));
  return k_broadcast(e, "f32",
                     k_op(e, "arith.bitcast %%v%u : i32 to f32", bits));
}

static nabla_attend_array load_array(nabla_emitter *e, uint64_t address,
                                     uint64_t steps) {
  return (nabla_attend_array){.base = nabla_emit_pointer(e, address),
                              .batch = nabla_emit_argument(e, steps),
                              .head = nabla_emit_argument(e, steps + 1),
                              .row = nabla_emit_argument(e, steps + 2)};
}

static void write_function(nabla_emitter *e, const void *context) {
  const function *f = context;
  nabla_attend a = {.e = e, .spec = f->spec};
  a.q = nabla_emit_pointer(e, NABLA_ATTENTION_Q);
  a.k = load_array(e, NABLA_ATTENTION_K, NABLA_ATTENTION_K_STEPS);
  a.v = load_array(e, NABLA_ATTENTION_V, NABLA_ATTENTION_V_STEPS);
  a.heads = nabla_emit_argument(e, NABLA_ATTENTION_HEADS);
  a.y = nabla_emit_pointer(e, NABLA_ATTENTION_Y);
  a.mask = nabla_emit_pointer(e, NABLA_ATTENTION_MASK);
  a.work = nabla_emit_pointer(e, NABLA_ATTENTION_WORK);
  a.queries = nabla_emit_argument(e, NABLA_ATTENTION_QUERIES);
  a.rows = nabla_emit_argument(e, NABLA_ATTENTION_ROWS);
  a.room = nabla_emit_argument(e, NABLA_ATTENTION_ROOM);
  a.count = nabla_emit_argument(e, NABLA_ATTENTION_COUNT);
  a.group = nabla_emit_argument(e, NABLA_ATTENTION_GROUP);
  a.mask_heads = nabla_emit_argument(e, NABLA_ATTENTION_MASK_HEADS);
  a.blocks = nabla_emit_argument(e, NABLA_ATTENTION_BLOCKS);
  a.pieces = nabla_emit_argument(e, NABLA_ATTENTION_PIECES);
  a.length = nabla_emit_argument(e, NABLA_ATTENTION_LENGTH);
  a.scale = load_scale(e);
  nabla_ssa zero = k_i64(e, 0);
  a.begin = k_op(e, "arith.addi %%begin, %%v%u : i64", zero);
  a.end = k_op(e, "arith.addi %%end, %%v%u : i64", zero);
  f->write(&a, f->rows);
}

void nabla_attend_function(const nabla_attention_spec *spec, const char *name,
                           const char *suffix,
                           void (*write)(nabla_attend *a, uint64_t rows),
                           uint64_t rows, nabla_text *text) {
  const function f = {spec, write, rows};
  const nabla_fused_spec target = {.features = spec->features};
  nabla_emitter e = {.spec = &target, .name = name};
  nabla_emit_kernel(&e, suffix, write_function, &f, text);
}

/* ---- a row ---------------------------------------------------------------
 */

void nabla_attend_clear_state(nabla_attend *a, nabla_ssa state) {
  nabla_emitter *e = a->e;
  nabla_array_ref to = nabla_floats_at(state);
  nabla_ssa zero = k_f32(e, NABLA_VECTOR, 0);
  k_write_lanes(e, to, k_i64(e, 0), minus_infinity(e));
  for (uint64_t i = NABLA_ATTEND_SUM; i < nabla_attend_state_floats(a->spec);
       i += NABLA_LANES)
    k_write_lanes(e, to, k_i64(e, i), zero);
}

nabla_ssa nabla_attend_visible(nabla_attend *a, nabla_ssa row, nabla_ssa from) {
  nabla_emitter *e = a->e;
  nabla_ssa limit = a->count;
  if (a->spec->causal) {
    nabla_ssa query =
        k_op(e, "arith.remui %%v%u, %%v%u : i64", row, a->queries);
    limit = k_add_constant(e, k_add(e, a->count, query), 1);
    limit = k_op(e, "arith.maxui %%v%u, %%v%u : i64", limit, a->queries);
    limit = k_op(e, "arith.subi %%v%u, %%v%u : i64", limit, a->queries);
  }
  limit = k_op(e, "arith.maxui %%v%u, %%v%u : i64", limit, from);
  return k_op(e, "arith.subi %%v%u, %%v%u : i64", limit, from);
}

/* The score of a key, or of NABLA_LANES from `index` on, with the mask. */
static nabla_ssa masked(nabla_attend *a, nabla_shape shape, nabla_ssa score,
                        nabla_ssa line, nabla_ssa index) {
  nabla_emitter *e = a->e;
  if (a->spec->mask == NABLA_ATTENTION_ADDED) {
    nabla_array_ref from = {line, a->spec->q_type};
    nabla_ssa other = shape == NABLA_SCALAR
                          ? k_read(e, from, index)
                          : k_read_lanes(e, from, index, NABLA_LANES);
    return k_binary(e, shape, "addf", score, other);
  }
  const char *type = shape == NABLA_SCALAR ? "i8" : "vector<16xi8>";
  nabla_ssa byte = k_load(e, type, line, index, 1);
  byte = k_op(e, "arith.extui %%v%u : %s to %s", byte, type,
              nabla_type_i32[shape]);
  nabla_ssa seen = k_op(e, "arith.cmpi ne, %%v%u, %%v%u : %s", byte,
                        k_i32(e, shape, 0), nabla_type_i32[shape]);
  nabla_ssa hidden = shape == NABLA_VECTOR
                         ? minus_infinity(e)
                         : k_op(e, "arith.bitcast %%v%u : i32 to f32",
                                k_i32(e, NABLA_SCALAR, MINUS_INFINITY));
  return k_select(e, shape, seen, score, hidden);
}

/* The address of the mask's row for a row of q, from key `from` on. */
static nabla_ssa mask_line(nabla_attend *a, nabla_ssa outer, nabla_ssa row,
                           nabla_ssa from) {
  nabla_emitter *e = a->e;
  const uint64_t size = a->spec->mask == NABLA_ATTENTION_TRUTH ? 1
                        : a->spec->q_type == NABLA_DTYPE_F32   ? 4
                                                               : 2;
  nabla_ssa head = k_op(e, "arith.divui %%v%u, %%v%u : i64", row, a->queries);
  nabla_ssa query = k_op(e, "arith.remui %%v%u, %%v%u : i64", row, a->queries);
  head = k_add(e, k_product(e, outer, a->group), head);
  head = k_op(e, "arith.remui %%v%u, %%v%u : i64", head, a->mask_heads);
  nabla_ssa line = k_add(e, k_product(e, head, a->queries), query);
  nabla_ssa index = k_add(e, k_product(e, line, a->room), from);
  return k_address(e, a->mask, k_multiply(e, index, size));
}

void nabla_attend_mask(nabla_attend *a, nabla_ssa scores, nabla_ssa outer,
                       nabla_ssa row, nabla_ssa from, nabla_ssa count) {
  nabla_emitter *e = a->e;
  nabla_array_ref at = nabla_floats_at(scores);
  nabla_loop whole, rest;
  if (a->spec->mask == NABLA_ATTENTION_NO_MASK) return;
  nabla_ssa line = mask_line(a, outer, row, from);
  nabla_ssa vectors =
      k_multiply(e, k_divide(e, count, NABLA_LANES), NABLA_LANES);
  k_loop_begin(e, &whole, k_i64(e, 0), vectors, NABLA_LANES, 0, NULL);
  nabla_ssa score = k_read_lanes(e, at, whole.induction, NABLA_LANES);
  score = masked(a, NABLA_VECTOR, score, line, whole.induction);
  k_write_lanes(e, at, whole.induction, score);
  k_loop_end(e, &whole, NULL);
  k_loop_begin(e, &rest, vectors, count, 1, 0, NULL);
  score = k_read(e, at, rest.induction);
  score = masked(a, NABLA_SCALAR, score, line, rest.induction);
  k_write(e, at, rest.induction, score);
  k_loop_end(e, &rest, NULL);
}

/* ---- softmax -------------------------------------------------------------
 */

static nabla_ssa larger(nabla_emitter *e, nabla_ssa a, nabla_ssa b) {
  nabla_ssa above =
      k_op(e, "arith.cmpf ogt, %%v%u, %%v%u : vector<16xf32>", a, b);
  return k_select(e, NABLA_VECTOR, above, a, b);
}

static unsigned across(unsigned lane, unsigned apart) { return lane ^ apart; }

/* The largest lane, or the sum of all, in every lane. */
static nabla_ssa over_lanes(nabla_emitter *e, nabla_ssa vector, int is_sum) {
  for (unsigned apart = NABLA_LANES / 2; apart; apart /= 2) {
    nabla_ssa other = k_shuffle(e, "f32", NABLA_LANES, vector, vector,
                                NABLA_LANES, across, apart);
    vector = is_sum ? k_binary(e, NABLA_VECTOR, "addf", vector, other)
                    : larger(e, vector, other);
  }
  return vector;
}

/* What is subtracted before exp: the maximum, or 0 where no key was seen, so
 * that a weight is exp(-infinity). */
static nabla_ssa shift_of(nabla_emitter *e, nabla_ssa maximum) {
  nabla_ssa none = k_op(e, "arith.cmpf oeq, %%v%u, %%v%u : vector<16xf32>",
                        maximum, minus_infinity(e));
  return k_select(e, NABLA_VECTOR, none, k_f32(e, NABLA_VECTOR, 0), maximum);
}

static nabla_ssa exp_less(nabla_emitter *e, nabla_ssa x, nabla_ssa shift) {
  return nabla_emit_exp(e, NABLA_VECTOR,
                        k_binary(e, NABLA_VECTOR, "subf", x, shift));
}

#define VECTORS (NABLA_ATTENTION_KEYS / NABLA_LANES)

/* The scores, -infinity from key `visible` on. */
static void read_scores(nabla_emitter *e, nabla_ssa scores, nabla_ssa visible,
                        nabla_ssa out[VECTORS]) {
  uint32_t lanes[NABLA_LANES];
  for (unsigned i = 0; i < NABLA_LANES; i++) lanes[i] = i;
  nabla_ssa lane = k_i32_lanes(e, lanes);
  visible = k_minimum(e, visible, k_i64(e, NABLA_ATTENTION_KEYS));
  visible = k_op(e, "arith.trunci %%v%u : i64 to i32", visible);
  visible = k_broadcast(e, "i32", visible);
  for (unsigned i = 0; i < VECTORS; i++) {
    nabla_ssa left =
        k_i32_with(e, NABLA_VECTOR, "subi", visible, i * NABLA_LANES);
    nabla_ssa seen =
        k_op(e, "arith.cmpi slt, %%v%u, %%v%u : vector<16xi32>", lane, left);
    out[i] = k_read_lanes(e, nabla_floats_at(scores),
                          k_i64(e, (uint64_t)i * NABLA_LANES), NABLA_LANES);
    out[i] = k_select(e, NABLA_VECTOR, seen, out[i], minus_infinity(e));
  }
}

void nabla_attend_softmax(nabla_attend *a, nabla_ssa scores, nabla_ssa visible,
                          nabla_ssa state) {
  nabla_emitter *e = a->e;
  nabla_array_ref kept = nabla_floats_at(state);
  nabla_ssa s[VECTORS], at_sum = k_i64(e, NABLA_ATTEND_SUM);
  read_scores(e, scores, visible, s);
  nabla_ssa most = s[0];
  for (unsigned i = 1; i < VECTORS; i++) most = larger(e, most, s[i]);
  nabla_ssa before = k_read_lanes(e, kept, k_i64(e, 0), NABLA_LANES);
  most = larger(e, over_lanes(e, most, 0), before);
  nabla_ssa shift = shift_of(e, most), total = 0;
  for (unsigned i = 0; i < VECTORS; i++) {
    s[i] = exp_less(e, s[i], shift);
    k_write_lanes(e, nabla_floats_at(scores),
                  k_i64(e, (uint64_t)i * NABLA_LANES), s[i]);
    total = i ? k_binary(e, NABLA_VECTOR, "addf", total, s[i]) : s[i];
  }
  nabla_ssa factor = exp_less(e, before, shift);
  nabla_ssa sum = k_read_lanes(e, kept, at_sum, NABLA_LANES);
  k_write_lanes(e, kept, at_sum, k_fma(e, NABLA_VECTOR, sum, factor, total));
  k_write_lanes(e, kept, k_i64(e, 0), most);
  for (unsigned c = 0; c < nabla_attend_chunks(a->spec); c++) {
    nabla_ssa at = k_i64(e, NABLA_ATTEND_WEIGHTED + (uint64_t)c * NABLA_LANES);
    nabla_ssa value = k_read_lanes(e, kept, at, NABLA_LANES);
    k_write_lanes(e, kept, at,
                  k_binary(e, NABLA_VECTOR, "mulf", value, factor));
  }
}

/* ---- from states to y ----------------------------------------------------
 */

/* Writes row `flat` of y, of all heads, from its state. Without keys it is 0;
 * where there are some but none is seen, 0 / 0. */
static void write_y(nabla_attend *a, nabla_ssa state, nabla_ssa flat) {
  nabla_emitter *e = a->e;
  const nabla_attention_spec *spec = a->spec;
  nabla_array_ref kept = nabla_floats_at(state), y = {a->y, spec->q_type};
  nabla_ssa first = k_multiply(e, flat, spec->value_head);
  nabla_ssa sum =
      k_read_lanes(e, kept, k_i64(e, NABLA_ATTEND_SUM), NABLA_LANES);
  sum = over_lanes(e, sum, 1);
  nabla_ssa empty =
      k_op(e, "arith.cmpi eq, %%v%u, %%v%u : i64", a->room, k_i64(e, 0));
  sum = k_op(e, "arith.select %%v%u, %%v%u, %%v%u : vector<16xf32>", empty,
             k_f32(e, NABLA_VECTOR, 1), sum);
  for (unsigned c = 0; c < nabla_attend_chunks(spec); c++) {
    const unsigned lanes = nabla_attend_lanes(spec->value_head, c);
    nabla_ssa at = k_i64(e, NABLA_ATTEND_WEIGHTED + (uint64_t)c * NABLA_LANES);
    nabla_ssa to = k_add_constant(e, first, (uint64_t)c * NABLA_LANES);
    nabla_ssa value = k_read_lanes(e, kept, at, NABLA_LANES);
    value = k_binary(e, NABLA_VECTOR, "divf", value, sum);
    if (lanes == NABLA_LANES) {
      k_write_lanes(e, y, to, value);
      continue;
    }
    k_write_lanes(e, kept, at, value);
    nabla_loop each;
    k_loop_begin(e, &each, k_i64(e, 0), k_i64(e, lanes), 1, 0, NULL);
    value = k_read(e, kept, k_add(e, at, each.induction));
    k_write(e, y, k_add(e, to, each.induction), value);
    k_loop_end(e, &each, NULL);
  }
}

/* The address of the partial result of a row and a piece. */
static nabla_ssa partial(nabla_attend *a, nabla_ssa flat, nabla_ssa piece) {
  nabla_emitter *e = a->e;
  nabla_ssa index = k_add(e, k_product(e, flat, a->pieces), piece);
  return k_address(e, a->work,
                   k_multiply(e, index, nabla_attention_state_bytes(a->spec)));
}

void nabla_attend_finish(nabla_attend *a, nabla_ssa state, nabla_ssa outer,
                         nabla_ssa row, nabla_ssa piece) {
  nabla_emitter *e = a->e;
  nabla_loop copy;
  nabla_ssa flat = k_add(e, k_product(e, outer, a->rows), row);
  nabla_ssa one =
      k_op(e, "arith.cmpi eq, %%v%u, %%v%u : i64", a->pieces, k_i64(e, 1));
  k_line(e, "scf.if %%v%u {", one);
  write_y(a, state, flat);
  k_line(e, "} else {");
  nabla_ssa to = partial(a, flat, piece);
  k_loop_begin(e, &copy, k_i64(e, 0),
               k_i64(e, nabla_attend_state_floats(a->spec)), NABLA_LANES, 0,
               NULL);
  k_write_lanes(
      e, nabla_floats_at(to), copy.induction,
      k_read_lanes(e, nabla_floats_at(state), copy.induction, NABLA_LANES));
  k_loop_end(e, &copy, NULL);
  k_line(e, "}");
}

/* ---- join ----------------------------------------------------------------
 */

/* The largest of the maxima of a row's partial results. */
static nabla_ssa join_maximum(nabla_attend *a, nabla_ssa flat) {
  nabla_emitter *e = a->e;
  nabla_loop each;
  nabla_ssa most = minus_infinity(e);
  k_loop_begin(e, &each, k_i64(e, 0), a->pieces, 1, 1, &most);
  nabla_ssa from = partial(a, flat, each.induction);
  nabla_ssa one =
      k_read_lanes(e, nabla_floats_at(from), k_i64(e, 0), NABLA_LANES);
  most = larger(e, each.carried[0], one);
  k_loop_end(e, &each, &most);
  return each.results[0];
}

static void join_row(nabla_attend *a, nabla_ssa flat, nabla_ssa state) {
  nabla_emitter *e = a->e;
  const unsigned count = 1 + nabla_attend_chunks(a->spec);
  nabla_ssa sums[NABLA_LOOP_MAX];
  nabla_loop each;
  nabla_ssa shift = shift_of(e, join_maximum(a, flat));
  for (unsigned i = 0; i < count; i++) sums[i] = k_f32(e, NABLA_VECTOR, 0);
  k_loop_begin(e, &each, k_i64(e, 0), a->pieces, 1, count, sums);
  nabla_array_ref from = nabla_floats_at(partial(a, flat, each.induction));
  nabla_ssa factor =
      exp_less(e, k_read_lanes(e, from, k_i64(e, 0), NABLA_LANES), shift);
  for (unsigned i = 0; i < count; i++) {
    nabla_ssa at = k_i64(e, NABLA_ATTEND_SUM + (uint64_t)i * NABLA_LANES);
    sums[i] = k_fma(e, NABLA_VECTOR, k_read_lanes(e, from, at, NABLA_LANES),
                    factor, each.carried[i]);
  }
  k_loop_end(e, &each, sums);
  for (unsigned i = 0; i < count; i++)
    k_write_lanes(e, nabla_floats_at(state),
                  k_i64(e, NABLA_ATTEND_SUM + (uint64_t)i * NABLA_LANES),
                  each.results[i]);
  write_y(a, state, flat);
}

static void join(nabla_attend *a, uint64_t rows) {
  nabla_emitter *e = a->e;
  nabla_loop each;
  (void)rows;
  nabla_ssa state = nabla_emit_reserve(e, nabla_attention_state_bytes(a->spec));
  k_loop_begin(e, &each, a->begin, a->end, 1, 0, NULL);
  join_row(a, each.induction, state);
  k_loop_end(e, &each, NULL);
}

void nabla_attention_emit_join(const nabla_attention_spec *spec,
                               const char *name, nabla_text *text) {
  nabla_attend_function(spec, name, "_join", join, 0, text);
}

/* ---- what there is -------------------------------------------------------
 */

static int is_float(nabla_dtype dtype) {
  return dtype == NABLA_DTYPE_F32 || dtype == NABLA_DTYPE_F16 ||
         dtype == NABLA_DTYPE_BF16;
}

const char *nabla_attention_objection(const nabla_attention_spec *spec) {
  if (!is_float(spec->q_type) || !is_float(spec->kv_type))
    return "elements are neither f32 nor f16 nor bf16";
  if (!spec->head || !spec->value_head) return "a head has no elements";
  if (spec->head > NABLA_ATTENTION_HEAD_MAX ||
      spec->value_head > NABLA_ATTENTION_HEAD_MAX)
    return "a head has more than 256 elements";
  return NULL;
}

void nabla_attention_name(const nabla_attention_spec *spec, nabla_text *text) {
  static const char *const masks[] = {"", "_masked", "_biased"};
  nabla_text_add(
      text, "nabla_attention_%s_%s_%llux%llu%s%s",
      nabla_dtype_name(spec->q_type), nabla_dtype_name(spec->kv_type),
      (unsigned long long)spec->head, (unsigned long long)spec->value_head,
      masks[spec->mask], spec->causal ? "_causal" : "");
}
