/* The AMX micro-kernel: products of parts; see amx_step.h. */
#include "lib/kernels/bf16/amx_step.h"

#include "lib/kernels/builder/k.h"

/* Accumulator tiles of each tile of x and half of the panel. */
static unsigned sum_tile(unsigned i, unsigned half) {
  return i * NABLA_MACRO_HALVES + half;
}

typedef void move(nabla_emitter *e, unsigned tile, nabla_ssa base,
                  nabla_ssa byte);

static void move_sums(nabla_emitter *e, unsigned sets, nabla_ssa base,
                      move *how) {
  for (unsigned i = 0; i < sets * NABLA_MACRO_HALVES; i++)
    how(e, i, base, k_i64(e, (uint64_t)i * NABLA_TILE_BYTES));
}

void nabla_emit_bf16_load_sums(nabla_emitter *e, unsigned sets,
                               nabla_ssa base) {
  move_sums(e, sets, base, nabla_emit_tile_load);
}

void nabla_emit_bf16_store_sums(nabla_emitter *e, unsigned sets,
                                nabla_ssa base) {
  move_sums(e, sets, base, nabla_emit_tile_store);
}

void nabla_emit_bf16_zero(nabla_emitter *e, unsigned sets) {
  for (unsigned i = 0; i < sets * NABLA_MACRO_HALVES; i++) k_tile_zero(e, i);
}

unsigned nabla_bf16_rows_behind(const nabla_bf16_step *step, unsigned rows) {
  return rows * step->done /
         (NABLA_MACRO_HALVES * nabla_bf16_products(&step->self));
}

static void load_w(nabla_emitter *e, const nabla_bf16_step *t, unsigned part,
                   unsigned half) {
  k_tile_load(
      e, NABLA_W_TILE + half, t->b->panel,
      k_add_constant(e, t->w_at, part * t->self.part + half * t->self.half));
}

static void load_x(nabla_emitter *e, const nabla_bf16_step *t, unsigned tile) {
  for (unsigned i = 0; i < t->s->count && i < NABLA_MACRO_TILES; i++)
    k_tile_load(e, NABLA_X_TILE + i, t->s->x[i],
                k_add_constant(e, t->x_at, (uint64_t)tile * NABLA_TILE_BYTES));
}

/* With one tile of x there are unused accumulator tiles: the products of a
 * step, if there are several, alternate between two sets, as consecutive
 * products in one set would wait for each other. */
static int has_two_sets(const nabla_emitter *e, const nabla_macro_tile *s) {
  const nabla_bf16 self = nabla_bf16_of(e->spec);
  return s->count == 1 && nabla_bf16_products(&self) > 1;
}

unsigned nabla_bf16_sets(const nabla_emitter *e, const nabla_macro_tile *s) {
  return has_two_sets(e, s) ? 2 : s->count;
}

/* The products with part `part` of w, which is loaded first if it is not in
 * tiles. */
static void multiply_part(nabla_emitter *e, nabla_bf16_step *t, unsigned part) {
  const int is_there = part == t->w_part;
  for (unsigned h = 0; h < NABLA_MACRO_HALVES; h++) {
    if (!is_there) load_w(e, t, part, h);
    for (unsigned i = 0; i < t->s->count; i++)
      k_tile_dot(e, "tdpbf16ps", sum_tile(i + t->set, h), NABLA_W_TILE + h,
                 NABLA_X_TILE + i);
    t->done++;
    t->after(e, t);
  }
  t->w_part = part;
  if (has_two_sets(e, t->s)) t->set ^= 1;
}

/* The products of the last tile of x first, and of parts whose product is 2^-16
 * of the whole or more. The part of w that is loaded serves first. */
void nabla_emit_bf16_step(nabla_emitter *e, const nabla_macro_block *b,
                          const nabla_macro_tile *s, nabla_ssa number,
                          void (*after)(nabla_emitter *, nabla_bf16_step *),
                          void *context) {
  nabla_bf16_step t = {.b = b,
                       .s = s,
                       .self = nabla_bf16_of(e->spec),
                       .number = number,
                       .w_part = NABLA_BF16_PARTS,
                       .after = after,
                       .context = context};
  t.w_at = k_multiply(e, number, NABLA_TILE_BYTES);
  t.x_at = k_multiply(e, number, b->self->step_bytes);
  for (unsigned x = t.self.x_tiles; x-- > 0;) {
    unsigned parts = NABLA_BF16_PARTS - x * t.self.folds;
    if (parts > t.self.w_parts) parts = t.self.w_parts;
    const unsigned there = t.w_part;
    load_x(e, &t, x);
    if (there < parts) multiply_part(e, &t, there);
    for (unsigned w = 0; w < parts; w++)
      if (w != there) multiply_part(e, &t, w);
  }
}
