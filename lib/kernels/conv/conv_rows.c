/* Convolutions of groups with few outputs: vectors of a row of the result, all
 * products of which load the image. A row that is no whole number of vectors
 * ends with one that overlaps the last but one, or is one masked vector. */
#include "lib/kernels/builder/vector_function.h"
#include "lib/kernels/conv/conv_parts.h"

#define VECTORS_MOST 4u
#define OUTPUTS_MOST 3u
#define UNROLLED_MOST                                    \
  32u /* products whose factors are loaded once for rows \
       */
#define ROWS_OF_UNIT 16u
#define DEPTH_MOST   192u /* products of a sum, before it is added to others */

static uint64_t rows_of(const nabla_conv_spec *spec) {
  return spec->out[0] * spec->out[1];
}

static uint64_t blocks_of(const nabla_conv_spec *spec) {
  return (rows_of(spec) + ROWS_OF_UNIT - 1) / ROWS_OF_UNIT;
}

uint64_t nabla_conv_rows_units(const nabla_conv_spec *spec) {
  return blocks_of(spec) * spec->groups;
}

uint64_t nabla_conv_rows_products(const nabla_conv_spec *spec) {
  const uint64_t rows =
      rows_of(spec) < ROWS_OF_UNIT ? rows_of(spec) : ROWS_OF_UNIT;
  return rows * spec->out[NABLA_CONV_DIMS - 1] * spec->outputs *
         nabla_conv_depth(spec);
}

/* A block of rows of one image and group. */
typedef struct unit {
  const nabla_conv_body *b;
  unsigned vectors; /* of a row that are computed together */
  uint64_t stride;  /* of windows of a row */
  nabla_ssa image, w, y;
  nabla_ssa row;              /* the address of its elements in the image */
  nabla_ssa to;               /* and in y, of the first output */
  nabla_ssa at[VECTORS_MOST]; /* windows with which the vectors begin */
  nabla_ssa kept;             /* lanes that exist */
  nabla_ssa places;           /* of strides beyond 2 */
  nabla_ssa factors[OUTPUTS_MOST * UNROLLED_MOST];
} unit;

static uint64_t width_of(const unit *u) {
  return u->b->spec->out[NABLA_CONV_DIMS - 1];
}

static unsigned lanes_of(const unit *u) {
  return width_of(u) < NABLA_LANES ? (unsigned)width_of(u) : NABLA_LANES;
}

static int is_unrolled(const unit *u) {
  return nabla_conv_depth(u->b->spec) * u->b->spec->outputs <= UNROLLED_MOST;
}

/* Elements `address`, + stride, ..., one for each lane. */
static nabla_ssa load(const unit *u, nabla_ssa address) {
  nabla_emitter *e = u->b->e;
  const unsigned lanes = lanes_of(u);
  nabla_ssa zeros = k_f32(e, NABLA_VECTOR, 0);
  if (u->stride == 1)
    return lanes == NABLA_LANES
               ? k_read_lanes(e, nabla_floats_at(address), k_i64(e, 0), lanes)
               : nabla_conv_load(e, address, u->kept, zeros);
  if (u->stride != 2) return nabla_conv_gather(e, address, u->places, u->kept);
  const unsigned reach = 2 * lanes - 1;
  const unsigned first = reach < NABLA_LANES ? reach : NABLA_LANES;
  nabla_ssa low = nabla_conv_load(e, address, k_mask(e, 0, first), zeros);
  nabla_ssa high = reach == first
                       ? zeros
                       : nabla_conv_load(e, k_address(e, address, k_i64(e, 64)),
                                         k_mask(e, 0, reach - first), zeros);
  return k_shuffle(e, "f32", NABLA_LANES, low, high, NABLA_LANES,
                   nabla_pick_second, 0);
}

static nabla_ssa factor(const unit *u, uint64_t output, nabla_ssa k) {
  nabla_emitter *e = u->b->e;
  nabla_ssa at = k_add_constant(e, k, output * nabla_conv_depth(u->b->spec));
  return k_broadcast(e, "f32", k_read(e, nabla_floats_at(u->w), at));
}

/* The products of element `k` of the depth, with factors of each output. */
static void multiply_one(const unit *u, nabla_ssa k, const nabla_ssa *factors,
                         nabla_ssa *sums) {
  nabla_emitter *e = u->b->e;
  nabla_ssa from = k_address(e, u->row, nabla_conv_offset(u->b, k));
  for (unsigned v = 0; v < u->vectors; v++) {
    nabla_ssa x =
        load(u, k_address(e, from, k_multiply(e, u->at[v], 4 * u->stride)));
    for (unsigned o = 0; o < u->b->spec->outputs; o++) {
      nabla_ssa *sum = &sums[o * u->vectors + v];
      *sum = k_fma(e, NABLA_VECTOR, factors[o], x, *sum);
    }
  }
}

static void add_unrolled(const unit *u, nabla_ssa *sums) {
  const uint64_t outputs = u->b->spec->outputs;
  for (uint64_t k = 0; k < nabla_conv_depth(u->b->spec); k++)
    multiply_one(u, k_i64(u->b->e, k), &u->factors[k * outputs], sums);
}

static void add_looped(const unit *u, nabla_ssa *sums) {
  nabla_emitter *e = u->b->e;
  const unsigned count = u->vectors * (unsigned)u->b->spec->outputs;
  const nabla_ssa depth = k_i64(e, nabla_conv_depth(u->b->spec));
  nabla_ssa next[NABLA_LOOP_MAX], factors[OUTPUTS_MOST];
  nabla_loop chunks, each;
  k_loop_begin(e, &chunks, k_i64(e, 0), depth, DEPTH_MOST, count, sums);
  nabla_ssa end =
      k_minimum(e, k_add_constant(e, chunks.induction, DEPTH_MOST), depth);
  for (unsigned i = 0; i < count; i++) next[i] = k_f32(e, NABLA_VECTOR, 0);
  k_loop_begin(e, &each, chunks.induction, end, 1, count, next);
  for (unsigned i = 0; i < count; i++) next[i] = each.carried[i];
  for (unsigned o = 0; o < u->b->spec->outputs; o++)
    factors[o] = factor(u, o, each.induction);
  multiply_one(u, each.induction, factors, next);
  k_loop_end(e, &each, next);
  for (unsigned i = 0; i < count; i++)
    next[i] =
        k_binary(e, NABLA_VECTOR, "addf", chunks.carried[i], each.results[i]);
  k_loop_end(e, &chunks, next);
  for (unsigned i = 0; i < count; i++) sums[i] = chunks.results[i];
}

/* Windows of the row from `column` on. */
static void write_vectors(unit *u, nabla_ssa column) {
  nabla_emitter *e = u->b->e;
  const uint64_t plane = nabla_conv_windows(u->b->spec);
  nabla_ssa sums[NABLA_LOOP_MAX];
  const unsigned outputs = (unsigned)u->b->spec->outputs;
  for (unsigned v = 0; v < u->vectors; v++) {
    u->at[v] = k_i64(e, 0);
    if (lanes_of(u) == NABLA_LANES)
      u->at[v] =
          k_minimum(e, k_add_constant(e, column, (uint64_t)v * NABLA_LANES),
                    k_i64(e, width_of(u) - NABLA_LANES));
  }
  for (unsigned i = 0; i < u->vectors * outputs; i++)
    sums[i] = k_f32(e, NABLA_VECTOR, 0);
  if (is_unrolled(u))
    add_unrolled(u, sums);
  else
    add_looped(u, sums);
  for (unsigned o = 0; o < outputs; o++)
    for (unsigned v = 0; v < u->vectors; v++) {
      nabla_ssa to = k_address(e, k_address(e, u->to, k_i64(e, 4 * o * plane)),
                               k_multiply(e, u->at[v], 4));
      if (lanes_of(u) == NABLA_LANES)
        k_write_lanes(e, nabla_floats_at(to), k_i64(e, 0),
                      sums[o * u->vectors + v]);
      else
        nabla_conv_store(e, to, u->kept, sums[o * u->vectors + v]);
    }
}

static void write_row(unit *u, nabla_ssa row) {
  nabla_emitter *e = u->b->e;
  nabla_loop columns;
  u->row = k_address(e, u->image, k_multiply(e, nabla_conv_row(u->b, row), 4));
  u->to = k_address(e, u->y, k_multiply(e, row, 4 * width_of(u)));
  k_loop_begin(e, &columns, k_i64(e, 0), k_i64(e, width_of(u)),
               (uint64_t)u->vectors * NABLA_LANES, 0, NULL);
  write_vectors(u, columns.induction);
  k_loop_end(e, &columns, NULL);
}

/* What all rows of a unit share. */
static void load_factors(unit *u) {
  nabla_emitter *e = u->b->e;
  const uint64_t outputs = u->b->spec->outputs;
  uint32_t places[NABLA_LANES];
  for (unsigned i = 0; i < NABLA_LANES; i++)
    places[i] = i < lanes_of(u) ? (uint32_t)(i * u->stride) : 0;
  u->places = nabla_emit_i32_lanes(e, places);
  u->kept = k_mask(e, 0, lanes_of(u));
  if (!is_unrolled(u)) return;
  for (uint64_t k = 0; k < nabla_conv_depth(u->b->spec); k++)
    for (uint64_t o = 0; o < outputs; o++)
      u->factors[k * outputs + o] = factor(u, o, k_i64(e, k));
}

static void write_unit(const nabla_conv_body *b, nabla_ssa number) {
  nabla_emitter *e = b->e;
  const nabla_conv_spec *spec = b->spec;
  unit u = {.b = b, .stride = spec->stride[NABLA_CONV_DIMS - 1]};
  nabla_loop rows;
  const uint64_t all = (width_of(&u) + NABLA_LANES - 1) / NABLA_LANES;
  u.vectors = all < VECTORS_MOST ? (unsigned)all : VECTORS_MOST;
  nabla_ssa first =
      k_multiply(e, nabla_conv_rest(e, number, blocks_of(spec)), ROWS_OF_UNIT);
  nabla_ssa end = k_minimum(e, k_add_constant(e, first, ROWS_OF_UNIT),
                            k_i64(e, rows_of(spec)));
  nabla_ssa part = k_divide(e, number, blocks_of(spec));
  nabla_ssa group = nabla_conv_rest(e, part, spec->groups);
  u.image = k_address(
      e, b->x,
      k_multiply(e, part, 4 * spec->features * nabla_conv_plane(spec)));
  u.w = k_address(
      e, b->w,
      k_multiply(e, group, 4 * spec->outputs * nabla_conv_depth(spec)));
  u.y = k_address(
      e, b->y,
      k_multiply(e, part, 4 * spec->outputs * nabla_conv_windows(spec)));
  load_factors(&u);
  k_loop_begin(e, &rows, first, end, 1, 0, NULL);
  write_row(&u, rows.induction);
  k_loop_end(e, &rows, NULL);
}

void nabla_conv_rows(const nabla_conv_body *b) {
  nabla_loop units;
  k_loop_begin(b->e, &units, b->e->begin, b->e->end, 1, 0, NULL);
  write_unit(b, units.induction);
  k_loop_end(b->e, &units, NULL);
}
