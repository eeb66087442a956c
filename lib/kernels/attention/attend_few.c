/* Attention of few rows, such as one query of a decoder step: a product of q
 * and a key has lanes along the head, so that k and v are read as they are,
 * each once, in blocks of keys. Tiles of rows share a load of k and of v.
 *
 * The scratch: rows of q, dot products of 16 keys by lanes, scores of a tile,
 * states of all rows. */
#include "lib/kernels/attention/attend.h"

/* Prefetch distance in k and in v, bytes: to the second cache on families that
 * have a distance of their own, else to the first. */
#define AHEAD 4096u

static nabla_attend_ahead ahead_of(nabla_attend *a, unsigned rows) {
  const nabla_cpu_family *family = k_family(a->e);
  const uint64_t far = rows == 1 ? family->key : family->keys;
  return (nabla_attend_ahead){far ? far : AHEAD, far != 0};
}

/* Rows of q that share a load of k, and accumulators in registers. */
static unsigned tile_rows(uint64_t rows) { return rows == 1 ? 1 : 4; }

static unsigned registers(const nabla_attention_spec *spec) {
  return NABLA_HAS(spec->features, AVX512F) ? 16 : 4;
}

typedef struct scratch {
  nabla_ssa q, dots, scores, states;
} scratch;

static uint64_t dots_bytes(void) {
  return (uint64_t)4 * NABLA_LANES * NABLA_LANES * 4;
}

static scratch reserve(nabla_attend *a) {
  nabla_emitter *e = a->e;
  const uint64_t q =
      NABLA_ATTENTION_FEW * nabla_attend_padded(a->spec->head) * 4;
  const uint64_t scores = (uint64_t)4 * NABLA_ATTENTION_KEYS * 4;
  const uint64_t states =
      NABLA_ATTENTION_FEW * nabla_attention_state_bytes(a->spec);
  nabla_ssa all = nabla_emit_reserve(e, q + dots_bytes() + scores + states);
  scratch s = {.q = all};
  s.dots = k_address(e, all, k_i64(e, q));
  s.scores = k_address(e, all, k_i64(e, q + dots_bytes()));
  s.states = k_address(e, all, k_i64(e, q + dots_bytes() + scores));
  return s;
}

/* The keys of an item that are multiplied at a time. */
typedef struct block {
  nabla_ssa outer, from, count;
} block;

/* Dot products of one key with a tile of rows, by lanes, to the scratch. */
static void multiply_key(nabla_attend *a, const scratch *s, const block *b,
                         unsigned rows, nabla_ssa tile, nabla_ssa key,
                         nabla_ssa slot) {
  nabla_emitter *e = a->e;
  const uint64_t head = a->spec->head, padded = nabla_attend_padded(head);
  nabla_ssa sums[4];
  nabla_ssa last =
      k_op(e, "arith.subi %%v%u, %%v%u : i64", a->count, k_i64(e, 1));
  nabla_ssa at =
      nabla_attend_kv_row(a, &a->k, b->outer, k_minimum(e, key, last));
  nabla_array_ref k = {at, a->spec->kv_type};
  const uint64_t bytes = head * nabla_attend_kv_size(a->spec);
  for (uint64_t line = 0; line < bytes; line += 64)
    nabla_attend_prefetch(e, ahead_of(a, rows), at, k_i64(e, line));
  for (unsigned r = 0; r < rows; r++) sums[r] = k_f32(e, NABLA_VECTOR, 0);
  for (unsigned c = 0; c < padded / NABLA_LANES; c++) {
    const uint64_t first = (uint64_t)c * NABLA_LANES;
    nabla_ssa one =
        k_read_lanes(e, k, k_i64(e, first), nabla_attend_lanes(head, c));
    for (unsigned r = 0; r < rows; r++) {
      nabla_ssa index =
          k_add_constant(e, k_multiply(e, tile, padded), r * padded + first);
      nabla_ssa x = k_read_lanes(e, nabla_floats_at(s->q), index, NABLA_LANES);
      sums[r] = k_fma(e, NABLA_VECTOR, x, one, sums[r]);
    }
  }
  for (unsigned r = 0; r < rows; r++)
    k_write_lanes(e, nabla_floats_at(s->dots),
                  k_add_constant(e, k_multiply(e, slot, NABLA_LANES),
                                 (uint64_t)r * NABLA_LANES * NABLA_LANES),
                  sums[r]);
}

/* The scaled scores of a block. */
static void score(nabla_attend *a, const scratch *s, const block *b,
                  unsigned rows, nabla_ssa tile) {
  nabla_emitter *e = a->e;
  nabla_loop groups, keys;
  k_loop_begin(e, &groups, k_i64(e, 0), b->count, NABLA_LANES, 0, NULL);
  k_loop_begin(e, &keys, k_i64(e, 0), k_i64(e, NABLA_LANES), 1, 0, NULL);
  nabla_ssa key = k_add(e, k_add(e, b->from, groups.induction), keys.induction);
  multiply_key(a, s, b, rows, tile, key, keys.induction);
  k_loop_end(e, &keys, NULL);
  for (unsigned r = 0; r < rows; r++) {
    nabla_ssa sum =
        k_lane_sums(e, nabla_floats_at(s->dots),
                    k_i64(e, (uint64_t)r * NABLA_LANES * NABLA_LANES));
    sum = k_binary(e, NABLA_VECTOR, "mulf", sum, a->scale);
    k_write_lanes(
        e, nabla_floats_at(s->scores),
        k_add_constant(e, groups.induction, (uint64_t)r * NABLA_ATTENTION_KEYS),
        sum);
  }
  k_loop_end(e, &groups, NULL);
}

static nabla_ssa state_of(nabla_attend *a, const scratch *s, nabla_ssa row) {
  return k_address(a->e, s->states,
                   k_multiply(a->e, row, nabla_attention_state_bytes(a->spec)));
}

/* The block, for `rows` rows from row `tile` on. */
static void attend_tile(nabla_attend *a, const scratch *s, const block *b,
                        unsigned rows, nabla_ssa tile) {
  nabla_emitter *e = a->e;
  nabla_loop each;
  score(a, s, b, rows, tile);
  nabla_ssa last =
      k_op(e, "arith.subi %%v%u, %%v%u : i64", a->rows, k_i64(e, 1));
  k_loop_begin(e, &each, k_i64(e, 0), k_i64(e, rows), 1, 0, NULL);
  nabla_ssa own = k_add(e, tile, each.induction);
  nabla_ssa row = k_minimum(e, own, last);
  nabla_ssa scores = k_address(
      e, s->scores, k_multiply(e, each.induction, NABLA_ATTENTION_KEYS * 4));
  nabla_attend_mask(a, scores, b->outer, row, b->from, b->count);
  nabla_attend_softmax(a, scores, nabla_attend_visible(a, row, b->from),
                       state_of(a, s, own));
  k_loop_end(e, &each, NULL);
  nabla_attend_values v = {.rows = {0, a->spec->kv_type},
                           .stride = a->v.row,
                           .ahead = ahead_of(a, rows)};
  v.rows.base = nabla_attend_kv_row(a, &a->v, b->outer, b->from);
  nabla_attend_weigh(a, &v, rows, rows == 1 ? 8 : registers(a->spec), s->scores,
                     b->count, state_of(a, s, tile));
}

/* All rows of an item, and a piece of the keys. */
static void attend_item(nabla_attend *a, const scratch *s, unsigned rows,
                        nabla_ssa item) {
  nabla_emitter *e = a->e;
  nabla_loop each, keys, tiles;
  block b;
  nabla_ssa zero = k_i64(e, 0);
  b.outer = k_op(e, "arith.divui %%v%u, %%v%u : i64", item, a->pieces);
  nabla_ssa piece = k_op(e, "arith.remui %%v%u, %%v%u : i64", item, a->pieces);
  nabla_ssa from = k_product(e, piece, a->length);
  nabla_ssa to = k_minimum(e, k_add(e, from, a->length), a->count);
  nabla_ssa all = k_i64(e, rows == 1 ? 1 : NABLA_ATTENTION_FEW);
  nabla_attend_copy_q(a, b.outer, zero, all, s->q);
  k_loop_begin(e, &each, zero, all, 1, 0, NULL);
  nabla_attend_clear_state(a, state_of(a, s, each.induction));
  k_loop_end(e, &each, NULL);
  k_loop_begin(e, &keys, from, to, NABLA_ATTENTION_KEYS, 0, NULL);
  b.from = keys.induction;
  nabla_ssa left = k_op(e, "arith.subi %%v%u, %%v%u : i64", to, b.from);
  b.count = k_minimum(e, left, k_i64(e, NABLA_ATTENTION_KEYS));
  if (rows == 1) {
    attend_tile(a, s, &b, 1, zero);
  } else {
    k_loop_begin(e, &tiles, zero, a->rows, rows, 0, NULL);
    attend_tile(a, s, &b, rows, tiles.induction);
    k_loop_end(e, &tiles, NULL);
  }
  k_loop_end(e, &keys, NULL);
  k_loop_begin(e, &each, zero, a->rows, 1, 0, NULL);
  nabla_attend_finish(a, state_of(a, s, each.induction), b.outer,
                      each.induction, piece);
  k_loop_end(e, &each, NULL);
}

static void attend_items(nabla_attend *a, const scratch *s, unsigned rows) {
  nabla_loop items;
  k_loop_begin(a->e, &items, a->begin, a->end, 1, 0, NULL);
  attend_item(a, s, rows, items.induction);
  k_loop_end(a->e, &items, NULL);
}

static void few(nabla_attend *a, uint64_t rows) {
  nabla_emitter *e = a->e;
  const scratch s = reserve(a);
  if (rows) {
    attend_items(a, &s, tile_rows(rows));
    return;
  }
  nabla_ssa one =
      k_op(e, "arith.cmpi eq, %%v%u, %%v%u : i64", a->rows, k_i64(e, 1));
  k_line(e, "scf.if %%v%u {", one);
  attend_items(a, &s, 1);
  k_line(e, "} else {");
  attend_items(a, &s, 4);
  k_line(e, "}");
}

void nabla_attention_emit_few(const nabla_attention_spec *spec,
                              const char *name, uint64_t rows,
                              nabla_text *text) {
  nabla_attend_function(spec, name, "_few", few, rows, text);
}
