/* Convolutions as products of matrices: panels of the windows, k by k, are
 * packed from the image into the first-level cache, and multiplied with rows of
 * the kernel as they are. Windows are numbered row-major; 16 of them are a
 * vector, which may lie in several rows of the result: it is put together of
 * masked loads, one for each row, or gathered where windows have strides. Zeros
 * around the image are lanes that are not loaded: a unit begins with the masks
 * of each position of a window, 16 bits each. */
#include "lib/base/checked.h"
#include "lib/kernels/builder/vector_function.h"
#include "lib/kernels/conv/conv_parts.h"

#define VECTORS_MOST 4u
#define PIECES_MOST  4u
#define DEPTH_MOST   288u  /* of a panel, divided by its vectors: 18 KB */
#define OUTPUTS_MOST 128u  /* that a panel is packed for, some rows more */
#define MASKS_MOST   8192u /* bytes */
#define FEW_UNITS    16u   /* in which a convolution is cut further */

typedef struct plan {
  unsigned rows, vectors; /* of a tile in registers */
  unsigned pieces;        /* loads of a vector; 0: it is gathered */
  uint64_t depth, chunk, windows, panels, block, blocks;
} plan;

static uint64_t ceiling(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

/* Vectors of a panel: least time for all panels, where a tile of few vectors
 * loads more for each product. */
static unsigned vectors_of(uint64_t windows) {
  static const unsigned cost[VECTORS_MOST + 1] = {0, 40, 29, 26, 27};
  const uint64_t all = ceiling(windows, NABLA_LANES);
  unsigned best = VECTORS_MOST;
  uint64_t least = UINT64_MAX;
  for (unsigned v = VECTORS_MOST; v >= 1; v--) {
    const uint64_t time = ceiling(all, v) * v * cost[v];
    if (time < least) {
      least = time;
      best = v;
    }
  }
  return best;
}

static unsigned pieces_of(const nabla_conv_spec *spec) {
  const uint64_t width = spec->out[NABLA_CONV_DIMS - 1];
  if (spec->stride[NABLA_CONV_DIMS - 1] != 1) return 0;
  if (width % NABLA_LANES == 0) return 1;
  const uint64_t rows = ceiling(NABLA_LANES - 1, width) + 1;
  return rows <= PIECES_MOST ? (unsigned)rows : 0;
}

/* The depth of a panel, about `most`: whole features, if that is not much more;
 * at most DEPTH_MOST. */
static uint64_t chunk_of(const nabla_conv_spec *spec, uint64_t depth,
                         uint64_t most) {
  const uint64_t chunks = ceiling(depth, most);
  const uint64_t whole =
      ceiling(spec->features, chunks) * nabla_conv_positions(spec);
  return whole <= most + most / 8 && whole <= DEPTH_MOST
             ? whole
             : ceiling(depth, chunks);
}

static plan plan_of(const nabla_conv_spec *spec) {
  plan p = {.rows = 6,
            .vectors = 1,
            .pieces = pieces_of(spec),
            .depth = nabla_conv_depth(spec),
            .windows = nabla_conv_windows(spec)};
  if (NABLA_HAS(spec->features_of_cpu, AVX512F)) {
    static const unsigned most[VECTORS_MOST + 1] = {0, 14, 12, 8, 6};
    p.vectors = vectors_of(p.windows);
    p.rows = most[p.vectors];
  }
  p.rows = (unsigned)ceiling(spec->outputs, ceiling(spec->outputs, p.rows));
  p.panels = ceiling(p.windows, (uint64_t)p.vectors * NABLA_LANES);
  p.chunk = chunk_of(spec, p.depth, DEPTH_MOST / p.vectors);
  const uint64_t wanted =
      p.panels * spec->groups < FEW_UNITS ? OUTPUTS_MOST / 4 : OUTPUTS_MOST;
  p.block = ceiling(wanted, p.rows) * p.rows;
  p.blocks = ceiling(spec->outputs, p.block);
  return p;
}

uint64_t nabla_conv_panels_units(const nabla_conv_spec *spec) {
  const plan p = plan_of(spec);
  return p.panels * p.blocks * spec->groups;
}

uint64_t nabla_conv_panels_products(const nabla_conv_spec *spec) {
  const plan p = plan_of(spec);
  const uint64_t rows = spec->outputs < p.block ? spec->outputs : p.block;
  return rows * p.depth * p.vectors * NABLA_LANES;
}

static uint64_t bytes_of_panel(const plan *p) {
  return p->chunk * p->vectors * NABLA_LANES * 4;
}

/* Masks of a position: of each vector, and each of its pieces. */
static uint64_t masks_of(const plan *p) {
  return (uint64_t)p->vectors * (p->pieces ? p->pieces : 1);
}

static uint64_t bytes_of_masks(const nabla_conv_spec *spec, const plan *p) {
  return nabla_conv_is_any_padded(spec)
             ? 2 * nabla_conv_positions(spec) * masks_of(p)
             : 0;
}

uint64_t nabla_conv_panels_scratch(const nabla_conv_spec *spec) {
  const plan p = plan_of(spec);
  return bytes_of_panel(&p) + bytes_of_masks(spec, &p);
}

/* Whether places of windows, which count rows of padding, are numbers of 32
 * bits. */
static int places_fit(const nabla_conv_spec *spec) {
  uint64_t reach = 0;
  for (int i = 0; i < NABLA_CONV_DIMS; i++) {
    uint64_t step, last;
    if (!nabla_mul_u64(spec->stride[i], nabla_conv_pitch(spec, i), &step) ||
        !nabla_mul_u64(spec->out[i] - 1, step, &last) ||
        !nabla_add_u64(reach, last, &reach))
      return 0;
  }
  return reach <= INT32_MAX;
}

int nabla_conv_panels_pads(const nabla_conv_spec *spec) {
  const plan p = plan_of(spec);
  return bytes_of_masks(spec, &p) <= MASKS_MOST &&
         (p.pieces || places_fit(spec));
}

/* A unit: one panel of one image and group, for a block of outputs. */
typedef struct unit {
  const nabla_conv_body *b;
  plan p;
  /* addresses: of window 0 of the group's part, of w, of y of the panel */
  nabla_ssa image, w, y;
  nabla_ssa outputs; /* of the block */
  nabla_ssa feature; /* the first of them in the result */
  nabla_ssa element; /* of the result, of which y is the address */
  nabla_ssa first;   /* window of the panel */
  /* of each vector: pieces, or places of its windows; windows that exist */
  nabla_ssa bases[VECTORS_MOST][PIECES_MOST], masks[VECTORS_MOST][PIECES_MOST];
  nabla_ssa places[VECTORS_MOST], kept[VECTORS_MOST];
} unit;

static nabla_ssa lanes(nabla_emitter *e) {
  uint32_t numbers[NABLA_LANES];
  for (unsigned i = 0; i < NABLA_LANES; i++) numbers[i] = i;
  return nabla_emit_i32_lanes(e, numbers);
}

static nabla_ssa splat(nabla_emitter *e, nabla_ssa number) {
  nabla_ssa narrow = k_op(e, "arith.trunci %%v%u : i64 to i32", number);
  return k_op(e, "vector.broadcast %%v%u : i32 to vector<16xi32>", narrow);
}

/* Lanes from `from` to `to`, which are any signed numbers. */
static nabla_ssa lanes_between(nabla_emitter *e, nabla_ssa from, nabla_ssa to) {
  const nabla_ssa all = k_i64(e, NABLA_LANES);
  nabla_ssa after = k_op(e, "arith.cmpi sge, %%v%u, %%v%u : vector<16xi32>",
                         lanes(e), splat(e, nabla_conv_least(e, from, all)));
  nabla_ssa before = k_op(e, "arith.cmpi slt, %%v%u, %%v%u : vector<16xi32>",
                          lanes(e), splat(e, nabla_conv_least(e, to, all)));
  return k_op(e, "arith.andi %%v%u, %%v%u : vector<16xi1>", after, before);
}

/* The pieces of vector `v`: piece 0 is the rest of a row, others begin with a
 * row. Lanes of windows that do not exist are in none. */
static void find_pieces(unit *u, unsigned v, nabla_ssa window, nabla_ssa left) {
  nabla_emitter *e = u->b->e;
  const uint64_t width = u->b->spec->out[NABLA_CONV_DIMS - 1];
  nabla_ssa row = k_divide(e, window, width);
  nabla_ssa column = nabla_conv_rest(e, window, width);
  for (unsigned p = 0; p < u->p.pieces; p++) {
    /* the lane in which the row would begin */
    nabla_ssa start = nabla_conv_subtract(e, k_i64(e, p * width), column);
    nabla_ssa end = nabla_conv_subtract(e, k_i64(e, (p + 1) * width), column);
    nabla_ssa at = nabla_conv_subtract(
        e, nabla_conv_row(u->b, k_add_constant(e, row, p)), start);
    at = k_op(e, "arith.muli %%v%u, %%v%u : i64", at, k_i64(e, 4));
    u->bases[v][p] = nabla_conv_address(e, u->image, at);
    u->masks[v][p] = lanes_between(e, start, nabla_conv_least(e, end, left));
  }
}

static nabla_ssa lanes_op(nabla_emitter *e, const char *op, nabla_ssa a,
                          uint64_t b) {
  return k_op(e, "arith.%s %%v%u, %%v%u : vector<16xi32>", op, a,
              k_i32(e, NABLA_VECTOR, (uint32_t)b));
}

/* Places of the windows of vector `v` in a plane; those that do not exist have
 * the place of the last. */
static void find_places(unit *u, unsigned v, nabla_ssa window) {
  nabla_emitter *e = u->b->e;
  const nabla_conv_spec *spec = u->b->spec;
  nabla_ssa at = k_op(e, "arith.addi %%v%u, %%v%u : vector<16xi32>", lanes(e),
                      splat(e, window));
  at = lanes_op(e, "minui", at, u->p.windows - 1);
  nabla_ssa sum = 0;
  for (int i = NABLA_CONV_DIMS; i-- > 0;) {
    nabla_ssa place = i ? lanes_op(e, "remui", at, spec->out[i]) : at;
    if (i) at = lanes_op(e, "divui", at, spec->out[i]);
    if (spec->out[i] == 1) continue;
    place =
        lanes_op(e, "muli", place, spec->stride[i] * nabla_conv_pitch(spec, i));
    sum = sum ? k_op(e, "arith.addi %%v%u, %%v%u : vector<16xi32>", sum, place)
              : place;
  }
  u->places[v] = sum ? sum : k_i32(e, NABLA_VECTOR, 0);
}

/* Where the windows of vector `v` begin in each dimension of the image. */
static void find_coordinates(const unit *u, unsigned v,
                             nabla_ssa out[NABLA_CONV_DIMS]) {
  nabla_emitter *e = u->b->e;
  const nabla_conv_spec *spec = u->b->spec;
  nabla_ssa at =
      k_op(e, "arith.addi %%v%u, %%v%u : vector<16xi32>", lanes(e),
           splat(e, k_add_constant(e, u->first, (uint64_t)v * NABLA_LANES)));
  at = lanes_op(e, "minui", at, u->p.windows - 1);
  for (int i = NABLA_CONV_DIMS; i-- > 0;) {
    nabla_ssa place = i ? lanes_op(e, "remui", at, spec->out[i]) : at;
    if (i) at = lanes_op(e, "divui", at, spec->out[i]);
    place = lanes_op(e, "muli", place, spec->stride[i]);
    out[i] = lanes_op(e, "subi", place, (uint64_t)spec->low[i]);
  }
}

/* Lanes whose element at a position, `by` behind the first of the window, is in
 * the image. */
static nabla_ssa lanes_inside(const unit *u, const nabla_ssa *coordinates,
                              const nabla_ssa *by) {
  nabla_emitter *e = u->b->e;
  const nabla_conv_spec *spec = u->b->spec;
  nabla_ssa inside = 0;
  for (int i = 0; i < NABLA_CONV_DIMS; i++) {
    if (!nabla_conv_is_padded(spec, i)) continue;
    nabla_ssa at = k_op(e, "arith.addi %%v%u, %%v%u : vector<16xi32>",
                        coordinates[i], splat(e, by[i]));
    at = k_op(e, "arith.cmpi ult, %%v%u, %%v%u : vector<16xi32>", at,
              k_i32(e, NABLA_VECTOR, (uint32_t)spec->in[i]));
    inside =
        inside ? k_op(e, "arith.andi %%v%u, %%v%u : vector<16xi1>", inside, at)
               : at;
  }
  return inside;
}

static nabla_ssa mask_address(const unit *u, nabla_ssa position, unsigned v,
                              unsigned piece) {
  nabla_emitter *e = u->b->e;
  const uint64_t pieces = masks_of(&u->p) / u->p.vectors;
  nabla_ssa at = k_multiply(e, position, 2 * masks_of(&u->p));
  return k_address(
      e, e->scratch,
      k_add_constant(e, at, bytes_of_panel(&u->p) + 2 * (v * pieces + piece)));
}

/* Writes the masks of all positions. */
static void find_inside(const unit *u) {
  nabla_emitter *e = u->b->e;
  const nabla_conv_spec *spec = u->b->spec;
  nabla_ssa coordinates[VECTORS_MOST][NABLA_CONV_DIMS], by[NABLA_CONV_DIMS];
  nabla_loop each;
  for (unsigned v = 0; v < u->p.vectors; v++)
    find_coordinates(u, v, coordinates[v]);
  k_loop_begin(e, &each, k_i64(e, 0), k_i64(e, nabla_conv_positions(spec)), 1,
               0, NULL);
  nabla_ssa left = each.induction;
  for (int i = NABLA_CONV_DIMS; i-- > 0;) {
    by[i] = k_multiply(e, nabla_conv_rest(e, left, spec->window[i]),
                       spec->dilation[i]);
    left = k_divide(e, left, spec->window[i]);
  }
  for (unsigned v = 0; v < u->p.vectors; v++) {
    nabla_ssa inside = lanes_inside(u, coordinates[v], by);
    for (unsigned p = 0; p < (u->p.pieces ? u->p.pieces : 1); p++) {
      nabla_ssa mask = inside;
      if (u->p.pieces)
        mask = k_op(e, "arith.andi %%v%u, %%v%u : vector<16xi1>", inside,
                    u->masks[v][p]);
      mask = k_op(e, "arith.bitcast %%v%u : vector<16xi1> to i16", mask);
      k_line(e,
             "llvm.store %%v%u, %%v%u {alignment = 2 : i64} : i16, !llvm.ptr",
             mask, mask_address(u, each.induction, v, p));
    }
  }
  k_loop_end(e, &each, NULL);
}

static void find_windows(unit *u) {
  nabla_emitter *e = u->b->e;
  for (unsigned v = 0; v < u->p.vectors; v++) {
    nabla_ssa window = k_add_constant(e, u->first, (uint64_t)v * NABLA_LANES);
    nabla_ssa left = nabla_conv_subtract(e, k_i64(e, u->p.windows), window);
    u->kept[v] = lanes_between(e, k_i64(e, 0), left);
    if (u->p.pieces)
      find_pieces(u, v, window, left);
    else
      find_places(u, v, window);
  }
  if (nabla_conv_is_any_padded(u->b->spec)) find_inside(u);
}

/* The lanes of a piece, or of a vector, that are loaded of position `position`.
 */
static nabla_ssa mask_of(const unit *u, unsigned v, unsigned piece,
                         nabla_ssa position) {
  nabla_emitter *e = u->b->e;
  if (!nabla_conv_is_any_padded(u->b->spec))
    return u->p.pieces ? u->masks[v][piece] : k_mask(e, 0, NABLA_LANES);
  nabla_ssa bits =
      k_op(e, "llvm.load %%v%u {alignment = 2 : i64} : !llvm.ptr -> i16",
           mask_address(u, position, v, piece));
  return k_op(e, "arith.bitcast %%v%u : i16 to vector<16xi1>", bits);
}

/* Elements of the windows of vector `v`, `offset` bytes behind their first; of
 * one position, whose masks are given. */
static nabla_ssa window_elements(const unit *u, unsigned v, nabla_ssa offset,
                                 const nabla_ssa *masks) {
  nabla_emitter *e = u->b->e;
  if (!u->p.pieces)
    return nabla_conv_gather(e, nabla_conv_address(e, u->image, offset),
                             u->places[v], masks[v]);
  nabla_ssa value = k_f32(e, NABLA_VECTOR, 0);
  for (unsigned p = 0; p < u->p.pieces; p++)
    value = nabla_conv_load(e, nabla_conv_address(e, u->bases[v][p], offset),
                            masks[v * u->p.pieces + p], value);
  return value;
}

static void find_masks(const unit *u, nabla_ssa position, nabla_ssa *out) {
  const unsigned pieces = u->p.pieces ? u->p.pieces : 1;
  for (unsigned v = 0; v < u->p.vectors; v++)
    for (unsigned p = 0; p < pieces; p++)
      out[v * pieces + p] = mask_of(u, v, p, position);
}

/* Writes row `row` of the panel. */
static void pack_row(const unit *u, nabla_ssa row, nabla_ssa offset,
                     const nabla_ssa *masks) {
  nabla_emitter *e = u->b->e;
  nabla_ssa to = k_multiply(e, row, (uint64_t)u->p.vectors * NABLA_LANES);
  for (unsigned v = 0; v < u->p.vectors; v++)
    k_write_lanes(e, nabla_floats_at(e->scratch),
                  k_add_constant(e, to, (uint64_t)v * NABLA_LANES),
                  window_elements(u, v, offset, masks));
}

/* Packs elements [from, from + count) of the depth: of each position those of
 * all features, if they are a number of whole ones. */
static void pack(const unit *u, nabla_ssa from, nabla_ssa count) {
  nabla_emitter *e = u->b->e;
  const uint64_t positions = nabla_conv_positions(u->b->spec);
  nabla_ssa masks[VECTORS_MOST * PIECES_MOST];
  nabla_loop depth, each;
  if (u->p.chunk % positions) {
    k_loop_begin(e, &depth, k_i64(e, 0), count, 1, 0, NULL);
    nabla_ssa k = k_add(e, from, depth.induction);
    find_masks(u, nabla_conv_rest(e, k, positions), masks);
    pack_row(u, depth.induction, nabla_conv_offset(u->b, k), masks);
    k_loop_end(e, &depth, NULL);
    return;
  }
  const uint64_t plane = 4 * nabla_conv_plane(u->b->spec);
  nabla_ssa first = k_multiply(e, k_divide(e, from, positions), plane);
  nabla_ssa features = k_divide(e, count, positions);
  k_loop_begin(e, &each, k_i64(e, 0), k_i64(e, positions), 1, 0, NULL);
  nabla_ssa offset = k_add(e, nabla_conv_offset(u->b, each.induction), first);
  find_masks(u, each.induction, masks);
  k_loop_begin(e, &depth, k_i64(e, 0), features, 1, 0, NULL);
  pack_row(u,
           k_add(e, k_multiply(e, depth.induction, positions), each.induction),
           k_add(e, offset, k_multiply(e, depth.induction, plane)), masks);
  k_loop_end(e, &depth, NULL);
  k_loop_end(e, &each, NULL);
}

static void multiply_one(const unit *u, unsigned rows, nabla_ssa w,
                         const nabla_loop *depth, nabla_ssa *out) {
  nabla_emitter *e = u->b->e;
  const unsigned vectors = u->p.vectors;
  nabla_ssa x[VECTORS_MOST];
  nabla_ssa at =
      k_multiply(e, depth->induction, (uint64_t)vectors * NABLA_LANES);
  for (unsigned v = 0; v < vectors; v++)
    x[v] = k_read_lanes(e, nabla_floats_at(e->scratch),
                        k_add_constant(e, at, (uint64_t)v * NABLA_LANES),
                        NABLA_LANES);
  for (unsigned r = 0; r < rows; r++) {
    nabla_ssa one = k_read(e, nabla_floats_at(w),
                           k_add_constant(e, depth->induction, r * u->p.depth));
    one = k_broadcast(e, "f32", one);
    for (unsigned v = 0; v < vectors; v++)
      out[r * vectors + v] =
          k_fma(e, NABLA_VECTOR, one, x[v], depth->carried[r * vectors + v]);
  }
}

/* Requests what the epilogue will read of `rows` outputs: pieces of few lines,
 * far from each other. */
static void request(const unit *u, unsigned rows, nabla_ssa output) {
  nabla_emitter *e = u->b->e;
  const uint64_t bytes = (uint64_t)u->p.vectors * NABLA_LANES * 4;
  nabla_ssa at = k_add(e, u->element, k_multiply(e, output, u->p.windows));
  for (int i = 0; i < u->b->spec->operand_count; i++) {
    if (!(u->b->spec->arrays >> i & 1)) continue;
    nabla_ssa from = k_address(e, u->b->operands[i], k_multiply(e, at, 4));
    for (unsigned r = 0; r < rows; r++)
      for (uint64_t byte = 0; byte < bytes + 64; byte += 64)
        nabla_emit_prefetch_far(
            e, k_address(e, from, k_i64(e, 4 * r * u->p.windows + byte)));
  }
}

/* Adds the products of `rows` outputs from `output` on with the packed
 * elements to the result, of which the masks `old` are there. */
static void multiply(const unit *u, unsigned rows, nabla_ssa output,
                     nabla_ssa from, nabla_ssa count, const nabla_ssa *old) {
  nabla_emitter *e = u->b->e;
  const unsigned vectors = u->p.vectors;
  nabla_ssa sums[NABLA_LOOP_MAX];
  nabla_loop depth;
  nabla_ssa at = k_add(e, k_multiply(e, output, u->p.depth), from);
  nabla_ssa w = k_address(e, u->w, k_multiply(e, at, 4));
  if (u->b->spec->arrays) request(u, rows, output);
  for (unsigned i = 0; i < rows * vectors; i++)
    sums[i] = k_f32(e, NABLA_VECTOR, 0);
  k_loop_begin(e, &depth, k_i64(e, 0), count, 1, rows * vectors, sums);
  multiply_one(u, rows, w, &depth, sums);
  k_loop_end(e, &depth, sums);
  nabla_ssa y = k_address(e, u->y, k_multiply(e, output, 4 * u->p.windows));
  for (unsigned r = 0; r < rows; r++)
    for (unsigned v = 0; v < vectors; v++) {
      nabla_ssa to = k_address(
          e, y, k_i64(e, 4 * (r * u->p.windows + (uint64_t)v * NABLA_LANES)));
      nabla_ssa before =
          nabla_conv_load(e, to, old[v], k_f32(e, NABLA_VECTOR, 0));
      nabla_conv_store(e, to, u->kept[v],
                       k_binary(e, NABLA_VECTOR, "addf", before,
                                depth.results[r * vectors + v]));
    }
}

/* A piece of the depth, for all outputs of the block. */
static void add_chunk(const unit *u, nabla_ssa from) {
  nabla_emitter *e = u->b->e;
  nabla_ssa old[VECTORS_MOST];
  nabla_loop tiles;
  const unsigned rest = (unsigned)(u->b->spec->outputs % u->p.rows);
  nabla_ssa left = nabla_conv_subtract(e, k_i64(e, u->p.depth), from);
  nabla_ssa count = k_minimum(e, left, k_i64(e, u->p.chunk));
  nabla_ssa is_later =
      k_op(e, "arith.cmpi ne, %%v%u, %%v%u : i64", from, k_i64(e, 0));
  nabla_ssa later =
      k_op(e, "vector.broadcast %%v%u : i1 to vector<16xi1>", is_later);
  for (unsigned v = 0; v < u->p.vectors; v++)
    old[v] =
        k_op(e, "arith.andi %%v%u, %%v%u : vector<16xi1>", u->kept[v], later);
  pack(u, from, count);
  nabla_ssa whole =
      k_multiply(e, k_divide(e, u->outputs, u->p.rows), u->p.rows);
  k_loop_begin(e, &tiles, k_i64(e, 0), whole, u->p.rows, 0, NULL);
  multiply(u, u->p.rows, tiles.induction, from, count, old);
  k_loop_end(e, &tiles, NULL);
  if (!rest) return;
  k_loop_begin(e, &tiles, whole, u->outputs, u->p.rows, 0, NULL);
  multiply(u, rest, tiles.induction, from, count, old);
  k_loop_end(e, &tiles, NULL);
}

/* The epilogue, of sums that lie in the first-level cache. */
static void finish(const unit *u) {
  nabla_emitter *e = u->b->e;
  nabla_loop rows;
  k_loop_begin(e, &rows, k_i64(e, 0), u->outputs, 1, 0, NULL);
  nabla_ssa from = k_multiply(e, rows.induction, u->p.windows);
  nabla_ssa feature = k_add(e, u->feature, rows.induction);
  for (unsigned v = 0; v < u->p.vectors; v++) {
    nabla_ssa at = k_add_constant(e, from, (uint64_t)v * NABLA_LANES);
    nabla_ssa to = k_address(e, u->y, k_multiply(e, at, 4));
    nabla_ssa sum =
        nabla_conv_load(e, to, u->kept[v], k_f32(e, NABLA_VECTOR, 0));
    sum = nabla_conv_finished(u->b, feature, k_add(e, u->element, at),
                              u->kept[v], sum);
    nabla_conv_store(e, to, u->kept[v], sum);
  }
  k_loop_end(e, &rows, NULL);
}

static void write_unit(const nabla_conv_body *b, nabla_ssa number) {
  nabla_emitter *e = b->e;
  const nabla_conv_spec *spec = b->spec;
  unit u = {.b = b, .p = plan_of(spec)};
  nabla_loop chunks;
  nabla_ssa panel = nabla_conv_rest(e, number, u.p.panels);
  nabla_ssa rest = k_divide(e, number, u.p.panels);
  nabla_ssa block =
      k_multiply(e, nabla_conv_rest(e, rest, u.p.blocks), u.p.block);
  nabla_ssa part = k_divide(e, rest, u.p.blocks); /* of an image: a group */
  nabla_ssa group = nabla_conv_rest(e, part, spec->groups);
  const uint64_t image = 4 * spec->features * nabla_conv_plane(spec);
  u.first = k_multiply(e, panel, (uint64_t)u.p.vectors * NABLA_LANES);
  u.outputs =
      k_minimum(e, nabla_conv_subtract(e, k_i64(e, spec->outputs), block),
                k_i64(e, u.p.block));
  u.image =
      nabla_conv_origin(b, k_address(e, b->x, k_multiply(e, part, image)));
  nabla_ssa output = k_add(e, k_multiply(e, group, spec->outputs), block);
  u.w = k_address(e, b->w, k_multiply(e, output, 4 * u.p.depth));
  u.feature = output;
  output = k_add(e, k_multiply(e, part, spec->outputs), block);
  u.element = k_add(e, k_multiply(e, output, u.p.windows), u.first);
  u.y = k_address(e, b->y, k_multiply(e, u.element, 4));
  find_windows(&u);
  k_loop_begin(e, &chunks, k_i64(e, 0), k_i64(e, u.p.depth), u.p.chunk, 0,
               NULL);
  add_chunk(&u, chunks.induction);
  k_loop_end(e, &chunks, NULL);
  if (spec->epilogue) finish(&u);
}

void nabla_conv_panels(const nabla_conv_body *b) {
  nabla_loop units;
  k_loop_begin(b->e, &units, b->e->begin, b->e->end, 1, 0, NULL);
  write_unit(b, units.induction);
  k_loop_end(b->e, &units, NULL);
}
