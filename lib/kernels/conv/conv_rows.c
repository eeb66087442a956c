/* Convolutions of groups with few outputs: vectors of a row of the result, all
 * products of which load the image. A row that is no whole number of vectors
 * ends with one that overlaps the last but one, or is one masked vector. Zeros
 * beside a row are lanes that are not loaded, which only its first and last
 * columns have; rows of zeros are in memory. */
#include "lib/kernels/builder/vector_function.h"
#include "lib/kernels/conv/conv_parts.h"

#define VECTORS_MOST 4u
#define OUTPUTS_MOST 3u
/* Products whose factors are loaded once for rows. */
#define UNROLLED_MOST 32u
#define ROWS_OF_UNIT  16u
#define ZEROS_MOST    2048u /* of a row */
#define DEPTH_MOST    192u /* products of a sum, before it is added to others */

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

static int is_unrolled(const nabla_conv_spec *spec) {
  return nabla_conv_depth(spec) * spec->outputs <= UNROLLED_MOST;
}

/* Windows of a row of the result that are computed together. */
static uint64_t columns_of(const nabla_conv_spec *spec) {
  const uint64_t width = spec->out[NABLA_CONV_DIMS - 1];
  const uint64_t all = (width + NABLA_LANES - 1) / NABLA_LANES;
  return (all < VECTORS_MOST ? all : VECTORS_MOST) * NABLA_LANES;
}

/* The first window of the last columns. */
static uint64_t last_of(const nabla_conv_spec *spec) {
  const uint64_t width = spec->out[NABLA_CONV_DIMS - 1];
  return (width - 1) / columns_of(spec) * columns_of(spec);
}

static int has_rows_of_zeros(const nabla_conv_spec *spec) {
  return nabla_conv_is_padded(spec, 0) || nabla_conv_is_padded(spec, 1);
}

static uint64_t zeros_of(const nabla_conv_spec *spec) {
  return (nabla_conv_reach(spec, NABLA_CONV_DIMS - 1) / NABLA_LANES + 4) *
         NABLA_LANES;
}

uint64_t nabla_conv_rows_scratch(const nabla_conv_spec *spec) {
  return has_rows_of_zeros(spec) ? 4 * zeros_of(spec) : 0;
}

/* Whether windows of columns between the first and the last have no zeros. */
int nabla_conv_rows_pads(const nabla_conv_spec *spec) {
  const int dim = NABLA_CONV_DIMS - 1;
  const int64_t columns = (int64_t)columns_of(spec);
  const int64_t by = (int64_t)spec->stride[dim], low = spec->low[dim];
  const int64_t end = (int64_t)spec->in[dim] + low -
                      (int64_t)((spec->window[dim] - 1) * spec->dilation[dim]);
  if (!is_unrolled(spec) ||
      (has_rows_of_zeros(spec) && zeros_of(spec) > ZEROS_MOST))
    return 0;
  return !nabla_conv_is_padded(spec, dim) ||
         (low <= columns * by && ((int64_t)last_of(spec) - 1) * by < end);
}

/* A block of rows of one image and group. */
typedef struct unit {
  const nabla_conv_body *b;
  unsigned vectors;         /* of a row that are computed together */
  uint64_t stride;          /* of windows of a row */
  nabla_ssa image, w, y;    /* image: where window 0 begins */
  nabla_ssa row;            /* the address of its elements in the image */
  nabla_ssa to;             /* and in y, of the first output */
  nabla_ssa feature, first; /* of the result: the first ones of the unit */
  nabla_ssa element;        /* and that at `to` */
  /* whether rows of windows are in the image, by place in dimensions 0, 1 */
  nabla_ssa inside[UNROLLED_MOST];
  int has_columns;               /* `columns` is known: */
  int64_t columns[VECTORS_MOST]; /* of `at` in the image */
  nabla_ssa at[VECTORS_MOST];    /* windows with which the vectors begin */
  nabla_ssa kept;                /* lanes that exist */
  nabla_ssa places;              /* of strides beyond 2 */
  nabla_ssa factors[OUTPUTS_MOST * UNROLLED_MOST];
} unit;

static uint64_t width_of(const unit *u) {
  return u->b->spec->out[NABLA_CONV_DIMS - 1];
}

static unsigned lanes_of(const unit *u) {
  return width_of(u) < NABLA_LANES ? (unsigned)width_of(u) : NABLA_LANES;
}

/* Numbers from `from` to `end`. */
typedef struct range {
  unsigned from, end;
} range;

static range between(range in, unsigned from, unsigned end) {
  const range all = {in.from > from ? in.from : from,
                     in.end < end ? in.end : end};
  return all.from < all.end ? (range){all.from - from, all.end - from}
                            : (range){0, 0};
}

/* Of `count` elements of a row, from column `column` on, those in the image. */
static range inside_of(const unit *u, int64_t column, unsigned count) {
  const int64_t width = (int64_t)u->b->spec->in[NABLA_CONV_DIMS - 1];
  const int64_t from = column < 0 ? -column : 0, left = width - column;
  const int64_t end = left < (int64_t)count ? left : (int64_t)count;
  return from < end ? (range){(unsigned)from, (unsigned)end} : (range){0, 0};
}

static nabla_ssa load_range(const unit *u, nabla_ssa address, range lanes) {
  nabla_emitter *e = u->b->e;
  nabla_ssa zeros = k_f32(e, NABLA_VECTOR, 0);
  if (lanes.from == lanes.end) return zeros;
  if (lanes.end - lanes.from == NABLA_LANES)
    return k_read_lanes(e, nabla_floats_at(address), k_i64(e, 0), NABLA_LANES);
  return nabla_conv_load(e, address, k_mask(e, lanes.from, lanes.end), zeros);
}

/* Elements `address`, + stride, ..., one for each lane, of which those of
 * `inside` exist. */
static nabla_ssa load(const unit *u, nabla_ssa address, range inside) {
  nabla_emitter *e = u->b->e;
  if (u->stride == 1) return load_range(u, address, inside);
  if (u->stride == 2) {
    nabla_ssa low = load_range(u, address, between(inside, 0, NABLA_LANES));
    nabla_ssa high = load_range(u, k_address(e, address, k_i64(e, 64)),
                                between(inside, NABLA_LANES, 2 * NABLA_LANES));
    return k_shuffle(e, "f32", NABLA_LANES, low, high, NABLA_LANES,
                     nabla_pick_second, 0);
  }
  const unsigned by = (unsigned)u->stride;
  const unsigned from = (inside.from + by - 1) / by;
  const unsigned end = (inside.end + by - 1) / by;
  if (from >= end) return k_f32(e, NABLA_VECTOR, 0);
  return nabla_conv_gather(e, address, u->places, k_mask(e, from, end));
}

static nabla_ssa factor(const unit *u, uint64_t output, nabla_ssa k) {
  nabla_emitter *e = u->b->e;
  nabla_ssa at = k_add_constant(e, k, output * nabla_conv_depth(u->b->spec));
  return k_broadcast(e, "f32", k_read(e, nabla_floats_at(u->w), at));
}

/* The products of elements from `from` on with factors of each output; `by`
 * columns behind the first element of a window. */
static void multiply_one(const unit *u, nabla_ssa from, uint64_t by,
                         const nabla_ssa *factors, nabla_ssa *sums) {
  nabla_emitter *e = u->b->e;
  const unsigned elements = (lanes_of(u) - 1) * (unsigned)u->stride + 1;
  for (unsigned v = 0; v < u->vectors; v++) {
    const range inside =
        u->has_columns ? inside_of(u, u->columns[v] + (int64_t)by, elements)
                       : (range){0, elements};
    nabla_ssa x = load(
        u, k_address(e, from, k_multiply(e, u->at[v], 4 * u->stride)), inside);
    for (unsigned o = 0; o < u->b->spec->outputs; o++) {
      nabla_ssa *sum = &sums[o * u->vectors + v];
      *sum = k_fma(e, NABLA_VECTOR, factors[o], x, *sum);
    }
  }
}

/* The address of element `k` of window 0 of the row: of zeros, where its row is
 * not in the image. */
static nabla_ssa address_of(const unit *u, uint64_t k) {
  nabla_emitter *e = u->b->e;
  const nabla_conv_spec *spec = u->b->spec;
  const uint64_t width = spec->window[NABLA_CONV_DIMS - 1];
  const uint64_t place = k % nabla_conv_positions(spec) / width;
  nabla_ssa at =
      nabla_conv_address(e, u->row, nabla_conv_offset(u->b, k_i64(e, k)));
  if (!has_rows_of_zeros(spec)) return at;
  nabla_ssa zeros =
      k_address(e, e->scratch, k_i64(e, 4 * (k % width) * spec->dilation[2]));
  return k_op(e, "arith.select %%v%u, %%v%u, %%v%u : i1, !llvm.ptr",
              u->inside[place], at, zeros);
}

static void add_unrolled(const unit *u, nabla_ssa *sums) {
  const nabla_conv_spec *spec = u->b->spec;
  const uint64_t width = spec->window[NABLA_CONV_DIMS - 1];
  for (uint64_t k = 0; k < nabla_conv_depth(spec); k++)
    multiply_one(u, address_of(u, k),
                 k % width * spec->dilation[NABLA_CONV_DIMS - 1],
                 &u->factors[k * spec->outputs], sums);
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
  multiply_one(u, k_address(e, u->row, nabla_conv_offset(u->b, each.induction)),
               0, factors, next);
  k_loop_end(e, &each, next);
  for (unsigned i = 0; i < count; i++)
    next[i] =
        k_binary(e, NABLA_VECTOR, "addf", chunks.carried[i], each.results[i]);
  k_loop_end(e, &chunks, next);
  for (unsigned i = 0; i < count; i++) sums[i] = chunks.results[i];
}

static void store(const unit *u, unsigned output, unsigned v, nabla_ssa sum) {
  nabla_emitter *e = u->b->e;
  const uint64_t plane = output * nabla_conv_windows(u->b->spec);
  const int is_whole = lanes_of(u) == NABLA_LANES;
  nabla_ssa to = k_address(e, k_address(e, u->to, k_i64(e, 4 * plane)),
                           k_multiply(e, u->at[v], 4));
  nabla_ssa element = k_add(e, k_add_constant(e, u->element, plane), u->at[v]);
  sum = nabla_conv_finished(u->b, k_add_constant(e, u->feature, output),
                            element, is_whole ? 0 : u->kept, sum);
  if (is_whole)
    k_write_lanes(e, nabla_floats_at(to), k_i64(e, 0), sum);
  else
    nabla_conv_store(e, to, u->kept, sum);
}

/* Windows of the row from `column` on, which `known` is, or it is -1: then no
 * window has zeros. */
static void write_vectors(unit *u, nabla_ssa column, int64_t known) {
  nabla_emitter *e = u->b->e;
  nabla_ssa sums[NABLA_LOOP_MAX];
  const unsigned outputs = (unsigned)u->b->spec->outputs;
  for (unsigned v = 0; v < u->vectors; v++) {
    uint64_t first = (uint64_t)known + (uint64_t)v * NABLA_LANES;
    if (first + lanes_of(u) > width_of(u)) first = width_of(u) - lanes_of(u);
    u->has_columns =
        known >= 0 && nabla_conv_is_padded(u->b->spec, NABLA_CONV_DIMS - 1);
    u->columns[v] = (int64_t)(first * u->stride) - u->b->spec->low[2];
    u->at[v] = k_i64(e, known < 0 ? 0 : first);
    if (lanes_of(u) == NABLA_LANES && known < 0)
      u->at[v] =
          k_minimum(e, k_add_constant(e, column, (uint64_t)v * NABLA_LANES),
                    k_i64(e, width_of(u) - NABLA_LANES));
  }
  for (unsigned i = 0; i < u->vectors * outputs; i++)
    sums[i] = k_f32(e, NABLA_VECTOR, 0);
  if (is_unrolled(u->b->spec))
    add_unrolled(u, sums);
  else
    add_looped(u, sums);
  for (unsigned o = 0; o < outputs; o++)
    for (unsigned v = 0; v < u->vectors; v++)
      store(u, o, v, sums[o * u->vectors + v]);
}

/* Which rows of the windows of row `row` are in the image. */
static void find_inside(unit *u, nabla_ssa row) {
  nabla_emitter *e = u->b->e;
  const nabla_conv_spec *spec = u->b->spec;
  const nabla_ssa places[2] = {k_divide(e, row, spec->out[1]),
                               nabla_conv_rest(e, row, spec->out[1])};
  for (uint64_t at = 0; at < spec->window[0] * spec->window[1]; at++) {
    const uint64_t of[2] = {at / spec->window[1], at % spec->window[1]};
    u->inside[at] = k_op(e, "arith.constant true");
    for (int i = 0; i < 2; i++) {
      if (!nabla_conv_is_padded(spec, i)) continue;
      nabla_ssa by =
          k_add_constant(e, k_multiply(e, places[i], spec->stride[i]),
                         of[i] * spec->dilation[i]);
      by = k_op(e, "arith.addi %%v%u, %%v%u : i64", by,
                k_i64(e, (uint64_t)-spec->low[i]));
      nabla_ssa is_in = k_op(e, "arith.cmpi ult, %%v%u, %%v%u : i64", by,
                             k_i64(e, spec->in[i]));
      u->inside[at] =
          k_op(e, "arith.andi %%v%u, %%v%u : i1", u->inside[at], is_in);
    }
  }
}

static void write_row(unit *u, nabla_ssa row) {
  nabla_emitter *e = u->b->e;
  const uint64_t last = last_of(u->b->spec);
  nabla_loop columns;
  u->row = k_address(e, u->image, k_multiply(e, nabla_conv_row(u->b, row), 4));
  u->to = k_address(e, u->y, k_multiply(e, row, 4 * width_of(u)));
  u->element = k_add(e, u->first, k_multiply(e, row, width_of(u)));
  if (has_rows_of_zeros(u->b->spec)) find_inside(u, row);
  if (nabla_conv_is_padded(u->b->spec, NABLA_CONV_DIMS - 1) || !last) {
    write_vectors(u, k_i64(e, 0), 0);
    if (last > columns_of(u->b->spec)) {
      k_loop_begin(e, &columns, k_i64(e, columns_of(u->b->spec)),
                   k_i64(e, last), columns_of(u->b->spec), 0, NULL);
      write_vectors(u, columns.induction, -1);
      k_loop_end(e, &columns, NULL);
    }
    if (last) write_vectors(u, k_i64(e, last), (int64_t)last);
    return;
  }
  k_loop_begin(e, &columns, k_i64(e, 0), k_i64(e, width_of(u)),
               columns_of(u->b->spec), 0, NULL);
  write_vectors(u, columns.induction, -1);
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
  if (!is_unrolled(u->b->spec)) return;
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
  u.image = nabla_conv_origin(
      b, k_address(
             e, b->x,
             k_multiply(e, part, 4 * spec->features * nabla_conv_plane(spec))));
  u.w = k_address(
      e, b->w,
      k_multiply(e, group, 4 * spec->outputs * nabla_conv_depth(spec)));
  u.feature = k_multiply(e, group, spec->outputs);
  u.first = k_multiply(e, part, spec->outputs * nabla_conv_windows(spec));
  u.y = k_address(e, b->y, k_multiply(e, u.first, 4));
  load_factors(&u);
  k_loop_begin(e, &rows, first, end, 1, 0, NULL);
  write_row(&u, rows.induction);
  k_loop_end(e, &rows, NULL);
}

void nabla_conv_rows(const nabla_conv_body *b) {
  nabla_loop units;
  if (has_rows_of_zeros(b->spec))
    k_clear(b->e, nabla_floats_at(b->e->scratch),
            k_i64(b->e, zeros_of(b->spec)));
  k_loop_begin(b->e, &units, b->e->begin, b->e->end, 1, 0, NULL);
  write_unit(b, units.induction);
  k_loop_end(b->e, &units, NULL);
}
