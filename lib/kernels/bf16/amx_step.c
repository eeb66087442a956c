/* Products of parts; see amx_step.h. */
#include "lib/kernels/bf16/amx_step.h"

/* Tiles of sums, of each tile of x and half of the panel. */
static unsigned sum_tile(unsigned i, unsigned half) {
  return i * NABLA_TILED_HALVES + half;
}

typedef void move(nabla_emitter *emitter, unsigned tile, nabla_ssa base,
                  nabla_ssa byte);

static void move_sums(nabla_emitter *emitter, unsigned sets, nabla_ssa base,
                      move *how) {
  for (unsigned i = 0; i < sets * NABLA_TILED_HALVES; i++)
    how(emitter, i, base,
        nabla_emit_i64(emitter, (uint64_t)i * NABLA_TILE_BYTES));
}

void nabla_emit_bf16_load_sums(nabla_emitter *emitter, unsigned sets,
                               nabla_ssa base) {
  move_sums(emitter, sets, base, nabla_emit_tile_load);
}

void nabla_emit_bf16_store_sums(nabla_emitter *emitter, unsigned sets,
                                nabla_ssa base) {
  move_sums(emitter, sets, base, nabla_emit_tile_store);
}

void nabla_emit_bf16_zero(nabla_emitter *emitter, unsigned sets) {
  for (unsigned i = 0; i < sets * NABLA_TILED_HALVES; i++)
    nabla_emit_tile_zero(emitter, i);
}

unsigned nabla_bf16_rows_behind(const nabla_bf16_step *step, unsigned rows) {
  return rows * step->done /
         (NABLA_TILED_HALVES * nabla_bf16_products(&step->self));
}

static void load_w(nabla_emitter *emitter, const nabla_bf16_step *t,
                   unsigned part, unsigned half) {
  nabla_emit_tile_load(
      emitter, NABLA_W_TILE + half, t->b->panel,
      nabla_emit_add_constant(emitter, t->w_at,
                              part * t->self.part + half * t->self.half));
}

static void load_x(nabla_emitter *emitter, const nabla_bf16_step *t,
                   unsigned tile) {
  for (unsigned i = 0; i < t->s->count && i < NABLA_TILED_AT_ONCE; i++)
    nabla_emit_tile_load(
        emitter, NABLA_X_TILE + i, t->s->x[i],
        nabla_emit_add_constant(emitter, t->x_at,
                                (uint64_t)tile * NABLA_TILE_BYTES));
}

/* With one tile of x there are sums to spare: the products of a step, if there
 * are several, go to either half of them in turn, as two would wait for each
 * other. */
static int has_two_sets(const nabla_emitter *emitter,
                        const nabla_tiled_square *s) {
  const nabla_bf16 self = nabla_bf16_of(emitter->spec);
  return s->count == 1 && nabla_bf16_products(&self) > 1;
}

unsigned nabla_bf16_sets(const nabla_emitter *emitter,
                         const nabla_tiled_square *s) {
  return has_two_sets(emitter, s) ? 2 : s->count;
}

/* The products with part `part` of w, loaded first if it is not there. */
static void multiply_part(nabla_emitter *emitter, nabla_bf16_step *t,
                          unsigned part) {
  const int is_there = part == t->w_part;
  for (unsigned h = 0; h < NABLA_TILED_HALVES; h++) {
    if (!is_there) load_w(emitter, t, part, h);
    for (unsigned i = 0; i < t->s->count; i++)
      nabla_emit_tile_dot(emitter, "tdpbf16ps", sum_tile(i + t->set, h),
                          NABLA_W_TILE + h, NABLA_X_TILE + i);
    t->done++;
    t->after(emitter, t);
  }
  t->w_part = part;
  if (has_two_sets(emitter, t->s)) t->set ^= 1;
}

/* The products of the last tile of x first, and of parts whose product is 2^-16
 * of the whole or more. The part of w that is loaded serves first. */
void nabla_emit_bf16_step(nabla_emitter *emitter, const nabla_tiled_block *b,
                          const nabla_tiled_square *s, nabla_ssa number,
                          void (*after)(nabla_emitter *, nabla_bf16_step *),
                          void *context) {
  nabla_bf16_step t = {.b = b,
                       .s = s,
                       .self = nabla_bf16_of(emitter->spec),
                       .number = number,
                       .w_part = NABLA_BF16_PARTS,
                       .after = after,
                       .context = context};
  t.w_at = nabla_emit_multiply(emitter, number, NABLA_TILE_BYTES);
  t.x_at = nabla_emit_multiply(emitter, number, b->self->step_bytes);
  for (unsigned x = t.self.x_tiles; x-- > 0;) {
    unsigned parts = NABLA_BF16_PARTS - x * t.self.folds;
    if (parts > t.self.w_parts) parts = t.self.w_parts;
    const unsigned there = t.w_part;
    load_x(emitter, &t, x);
    if (there < parts) multiply_part(emitter, &t, there);
    for (unsigned w = 0; w < parts; w++)
      if (w != there) multiply_part(emitter, &t, w);
  }
}
