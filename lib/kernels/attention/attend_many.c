/* Attention of many rows: for a block of keys k is transposed, so that keys are
 * in vector lanes, and multiplied with tiles of rows of q; v is multiplied as
 * it is, or widened to f32 first. A block of rows reads all keys that it sees.
 *
 * The scratch: rows of q, a block of k in panels [key / width][head][width], of
 * v, scores of a tile, states of a block of rows. */
#include "lib/kernels/attention/attend.h"

/* Rows of q times vectors of keys in registers. */
typedef struct tile_shape {
  unsigned rows, vectors;
} tile_shape;

static tile_shape shape_of(const nabla_attention_spec *spec) {
  return NABLA_HAS(spec->features, AVX512F) ? (tile_shape){8, 3}
                                            : (tile_shape){4, 1};
}

static unsigned width_of(const nabla_attention_spec *spec) {
  return shape_of(spec).vectors * NABLA_LANES;
}

/* v is copied unless it can be read as it is. */
static int copies_v(const nabla_attention_spec *spec) {
  return spec->kv_type != NABLA_DTYPE_F32 || spec->value_head % NABLA_LANES;
}

typedef struct scratch {
  nabla_ssa q, k, v, scores, states;
} scratch;

static scratch reserve(nabla_attend *a) {
  nabla_emitter *e = a->e;
  const nabla_attention_spec *spec = a->spec;
  const uint64_t sizes[] = {
      NABLA_ATTENTION_BLOCK * nabla_attend_padded(spec->head) * 4,
      NABLA_ATTENTION_KEYS * spec->head * 4,
      copies_v(spec)
          ? NABLA_ATTENTION_KEYS * nabla_attend_padded(spec->value_head) * 4
          : 0,
      (uint64_t)shape_of(spec).rows * NABLA_ATTENTION_KEYS * 4,
      NABLA_ATTENTION_BLOCK * nabla_attention_state_bytes(spec)};
  uint64_t at[5], total = 0;
  for (int i = 0; i < 5; i++) {
    at[i] = total;
    total += sizes[i];
  }
  nabla_ssa all = nabla_emit_reserve(e, total);
  return (scratch){.q = all,
                   .k = k_address(e, all, k_i64(e, at[1])),
                   .v = k_address(e, all, k_i64(e, at[2])),
                   .scores = k_address(e, all, k_i64(e, at[3])),
                   .states = k_address(e, all, k_i64(e, at[4]))};
}

/* Rows of q, and the keys that are multiplied with them at a time. */
typedef struct block {
  nabla_ssa outer, row, rows; /* rows of q */
  nabla_ssa from, count;      /* keys */
} block;

/* ---- k and v of a block --------------------------------------------------
 */

/* Transposes `lanes` elements from `first` on (an SSA index) of 16 keys. */
static void transpose(nabla_attend *a, const nabla_ssa keys[NABLA_LANES],
                      nabla_ssa first, unsigned lanes, nabla_ssa panel) {
  nabla_emitter *e = a->e;
  nabla_ssa v[NABLA_LANES];
  for (unsigned i = 0; i < NABLA_LANES; i++)
    v[i] = k_read_lanes(e, (nabla_array_ref){keys[i], a->spec->kv_type}, first,
                        lanes);
  k_transpose(e, "f32", v);
  for (unsigned i = 0; i < lanes; i++)
    k_write_lanes(e, nabla_floats_at(panel),
                  k_multiply(e, k_add_constant(e, first, i), width_of(a->spec)),
                  v[i]);
}

/* Keys from `group` on of the block, to their panel; keys that do not exist are
 * the last one. */
static void pack_group(nabla_attend *a, const scratch *s, const block *b,
                       nabla_ssa group) {
  nabla_emitter *e = a->e;
  const uint64_t head = a->spec->head, whole = head / NABLA_LANES * NABLA_LANES;
  const unsigned width = width_of(a->spec);
  nabla_ssa keys[NABLA_LANES];
  nabla_loop chunks;
  nabla_ssa last =
      k_op(e, "arith.subi %%v%u, %%v%u : i64", a->count, k_i64(e, 1));
  nabla_ssa from = k_add(e, b->from, group);
  for (unsigned i = 0; i < NABLA_LANES; i++) {
    nabla_ssa key = k_minimum(e, k_add_constant(e, from, i), last);
    keys[i] = nabla_attend_kv_row(a, &a->k, b->outer, key);
  }
  nabla_ssa panel = k_divide(e, group, width);
  nabla_ssa lane = k_op(e, "arith.subi %%v%u, %%v%u : i64", group,
                        k_multiply(e, panel, width));
  nabla_ssa at =
      k_add(e, k_multiply(e, panel, width * head * 4), k_multiply(e, lane, 4));
  nabla_ssa out = k_address(e, s->k, at);
  k_loop_begin(e, &chunks, k_i64(e, 0), k_i64(e, whole), NABLA_LANES, 0, NULL);
  transpose(a, keys, chunks.induction, NABLA_LANES, out);
  k_loop_end(e, &chunks, NULL);
  if (head % NABLA_LANES)
    transpose(a, keys, k_i64(e, whole), (unsigned)(head % NABLA_LANES), out);
}

static void pack_values(nabla_attend *a, const scratch *s, const block *b) {
  nabla_emitter *e = a->e;
  const uint64_t width = a->spec->value_head;
  const uint64_t padded = nabla_attend_padded(width);
  nabla_loop keys;
  k_loop_begin(e, &keys, k_i64(e, 0), b->count, 1, 0, NULL);
  nabla_ssa at = nabla_attend_kv_row(a, &a->v, b->outer,
                                     k_add(e, b->from, keys.induction));
  nabla_ssa to = k_multiply(e, keys.induction, padded);
  for (unsigned c = 0; c < padded / NABLA_LANES; c++) {
    const uint64_t first = (uint64_t)c * NABLA_LANES;
    k_write_lanes(e, nabla_floats_at(s->v), k_add_constant(e, to, first),
                  k_read_lanes(e, (nabla_array_ref){at, a->spec->kv_type},
                               k_i64(e, first), nabla_attend_lanes(width, c)));
  }
  k_loop_end(e, &keys, NULL);
}

static void pack(nabla_attend *a, const scratch *s, const block *b) {
  nabla_loop groups;
  k_loop_begin(a->e, &groups, k_i64(a->e, 0), b->count, NABLA_LANES, 0, NULL);
  pack_group(a, s, b, groups.induction);
  k_loop_end(a->e, &groups, NULL);
  if (copies_v(a->spec)) pack_values(a, s, b);
}

/* ---- a tile of rows ------------------------------------------------------
 */

/* The products of element `at` of the heads. */
static void multiply_one(nabla_attend *a, nabla_ssa q, nabla_ssa panel,
                         nabla_ssa at, const nabla_ssa *sums, nabla_ssa *out) {
  nabla_emitter *e = a->e;
  const tile_shape s = shape_of(a->spec);
  const uint64_t padded = nabla_attend_padded(a->spec->head);
  nabla_ssa k[NABLA_LANES];
  nabla_ssa first = k_multiply(e, at, width_of(a->spec));
  for (unsigned v = 0; v < s.vectors; v++)
    k[v] = k_read_lanes(e, nabla_floats_at(panel),
                        k_add_constant(e, first, (uint64_t)v * NABLA_LANES),
                        NABLA_LANES);
  for (unsigned r = 0; r < s.rows; r++) {
    nabla_ssa one =
        k_read(e, nabla_floats_at(q), k_add_constant(e, at, r * padded));
    one = k_broadcast(e, "f32", one);
    for (unsigned v = 0; v < s.vectors; v++)
      out[r * s.vectors + v] =
          k_fma(e, NABLA_VECTOR, one, k[v], sums[r * s.vectors + v]);
  }
}

/* The scaled scores of a tile of rows with one panel, from key `first` of the
 * block on. */
static void score_panel(nabla_attend *a, const scratch *s, nabla_ssa q,
                        nabla_ssa first) {
  nabla_emitter *e = a->e;
  const tile_shape t = shape_of(a->spec);
  const unsigned count = t.rows * t.vectors;
  nabla_ssa sums[NABLA_LOOP_MAX];
  nabla_loop elements;
  nabla_ssa panel = k_address(e, s->k, k_multiply(e, first, a->spec->head * 4));
  for (unsigned i = 0; i < count; i++) sums[i] = k_f32(e, NABLA_VECTOR, 0);
  k_loop_begin(e, &elements, k_i64(e, 0), k_i64(e, a->spec->head), 1, count,
               sums);
  multiply_one(a, q, panel, elements.induction, elements.carried, sums);
  k_loop_end(e, &elements, sums);
  for (unsigned i = 0; i < count; i++) {
    nabla_ssa to =
        k_add_constant(e, first,
                       (uint64_t)(i / t.vectors) * NABLA_ATTENTION_KEYS +
                           (uint64_t)(i % t.vectors) * NABLA_LANES);
    k_write_lanes(
        e, nabla_floats_at(s->scores), to,
        k_binary(e, NABLA_VECTOR, "mulf", elements.results[i], a->scale));
  }
}

static nabla_ssa state_of(nabla_attend *a, const scratch *s, nabla_ssa row) {
  return k_address(a->e, s->states,
                   k_multiply(a->e, row, nabla_attention_state_bytes(a->spec)));
}

static void multiply_values(nabla_attend *a, const scratch *s, const block *b,
                            nabla_ssa tile) {
  const nabla_attention_spec *spec = a->spec;
  const tile_shape t = shape_of(spec);
  nabla_attend_values v = {.stride = a->v.row, .padded = 1};
  if (copies_v(spec)) {
    v.rows = nabla_floats_at(s->v);
    v.stride = k_i64(a->e, nabla_attend_padded(spec->value_head));
  } else {
    v.rows = nabla_floats_at(nabla_attend_kv_row(a, &a->v, b->outer, b->from));
  }
  nabla_attend_weigh(a, &v, t.rows, t.rows * t.vectors, s->scores, b->count,
                     state_of(a, s, tile));
}

/* The block of keys, for the rows from row `tile` of the block on. */
static void attend_tile(nabla_attend *a, const scratch *s, const block *b,
                        nabla_ssa tile) {
  nabla_emitter *e = a->e;
  nabla_loop panels, each;
  nabla_ssa q = k_address(
      e, s->q, k_multiply(e, tile, nabla_attend_padded(a->spec->head) * 4));
  k_loop_begin(e, &panels, k_i64(e, 0), b->count, width_of(a->spec), 0, NULL);
  score_panel(a, s, q, panels.induction);
  k_loop_end(e, &panels, NULL);
  nabla_ssa last =
      k_op(e, "arith.subi %%v%u, %%v%u : i64", a->rows, k_i64(e, 1));
  k_loop_begin(e, &each, k_i64(e, 0), k_i64(e, shape_of(a->spec).rows), 1, 0,
               NULL);
  nabla_ssa own = k_add(e, tile, each.induction);
  nabla_ssa row = k_minimum(e, k_add(e, b->row, own), last);
  nabla_ssa scores = k_address(
      e, s->scores, k_multiply(e, each.induction, NABLA_ATTENTION_KEYS * 4));
  nabla_attend_mask(a, scores, b->outer, row, b->from, b->count);
  nabla_attend_softmax(a, scores, nabla_attend_visible(a, row, b->from),
                       state_of(a, s, own));
  k_loop_end(e, &each, NULL);
  multiply_values(a, s, b, tile);
}

/* ---- items ---------------------------------------------------------------
 */

/* The block of rows of item `number` of a head: the first, the last, the
 * second, the last but one, ..., since a block that comes later may see more
 * keys. */
static nabla_ssa block_of(nabla_attend *a, nabla_ssa number) {
  nabla_emitter *e = a->e;
  nabla_ssa half = k_divide(e, number, 2);
  nabla_ssa odd =
      k_op(e, "arith.remui %%v%u, %%v%u : i64", number, k_i64(e, 2));
  nabla_ssa is_odd =
      k_op(e, "arith.cmpi ne, %%v%u, %%v%u : i64", odd, k_i64(e, 0));
  nabla_ssa after = k_add_constant(e, half, 1);
  nabla_ssa from_end =
      k_op(e, "arith.subi %%v%u, %%v%u : i64", a->blocks, after);
  return k_choice(e, is_odd, from_end, half);
}

/* Where the keys end that a block of rows sees. */
static nabla_ssa end_of_keys(nabla_attend *a, const block *b) {
  nabla_emitter *e = a->e;
  if (!a->spec->causal) return a->count;
  nabla_ssa last = k_add(e, b->row, b->rows);
  last = k_op(e, "arith.subi %%v%u, %%v%u : i64", last, k_i64(e, 1));
  nabla_ssa first_head =
      k_op(e, "arith.divui %%v%u, %%v%u : i64", b->row, a->queries);
  nabla_ssa last_head =
      k_op(e, "arith.divui %%v%u, %%v%u : i64", last, a->queries);
  nabla_ssa same =
      k_op(e, "arith.cmpi eq, %%v%u, %%v%u : i64", first_head, last_head);
  return k_choice(e, same, nabla_attend_visible(a, last, k_i64(e, 0)),
                  a->count);
}

/* A block of rows, and a piece of the keys. */
static void attend_block(nabla_attend *a, const scratch *s, block *b,
                         nabla_ssa piece) {
  nabla_emitter *e = a->e;
  nabla_loop keys, tiles;
  nabla_ssa zero = k_i64(e, 0);
  nabla_ssa from = k_product(e, piece, a->length);
  nabla_ssa to = k_minimum(e, k_add(e, from, a->length), end_of_keys(a, b));
  k_loop_begin(e, &keys, from, to, NABLA_ATTENTION_KEYS, 0, NULL);
  b->from = keys.induction;
  nabla_ssa left = k_op(e, "arith.subi %%v%u, %%v%u : i64", to, b->from);
  b->count = k_minimum(e, left, k_i64(e, NABLA_ATTENTION_KEYS));
  pack(a, s, b);
  k_loop_begin(e, &tiles, zero, b->rows, shape_of(a->spec).rows, 0, NULL);
  attend_tile(a, s, b, tiles.induction);
  k_loop_end(e, &tiles, NULL);
  k_loop_end(e, &keys, NULL);
}

static void attend_item(nabla_attend *a, const scratch *s, nabla_ssa item) {
  nabla_emitter *e = a->e;
  nabla_loop each;
  block b = {0};
  nabla_ssa zero = k_i64(e, 0), all = k_i64(e, NABLA_ATTENTION_BLOCK);
  nabla_ssa piece = k_op(e, "arith.remui %%v%u, %%v%u : i64", item, a->pieces);
  nabla_ssa rest = k_op(e, "arith.divui %%v%u, %%v%u : i64", item, a->pieces);
  nabla_ssa number = k_op(e, "arith.remui %%v%u, %%v%u : i64", rest, a->blocks);
  b.outer = k_op(e, "arith.divui %%v%u, %%v%u : i64", rest, a->blocks);
  b.row = k_multiply(e, block_of(a, number), NABLA_ATTENTION_BLOCK);
  nabla_ssa left = k_op(e, "arith.subi %%v%u, %%v%u : i64", a->rows, b.row);
  b.rows = k_minimum(e, left, all);
  nabla_attend_copy_q(a, b.outer, b.row, all, s->q);
  k_loop_begin(e, &each, zero, all, 1, 0, NULL);
  nabla_attend_clear_state(a, state_of(a, s, each.induction));
  k_loop_end(e, &each, NULL);
  attend_block(a, s, &b, piece);
  k_loop_begin(e, &each, zero, b.rows, 1, 0, NULL);
  nabla_attend_finish(a, state_of(a, s, each.induction), b.outer,
                      k_add(e, b.row, each.induction), piece);
  k_loop_end(e, &each, NULL);
}

static void many(nabla_attend *a, uint64_t rows) {
  nabla_emitter *e = a->e;
  const scratch s = reserve(a);
  nabla_loop items;
  (void)rows;
  k_loop_begin(e, &items, a->begin, a->end, 1, 0, NULL);
  attend_item(a, &s, items.induction);
  k_loop_end(e, &items, NULL);
}

void nabla_attention_emit_many(const nabla_attention_spec *spec,
                               const char *name, nabla_text *text) {
  nabla_attend_function(spec, name, "_many", many, 0, text);
}
