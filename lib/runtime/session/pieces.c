/* See pieces.h. A component of a weight is seen as a row-major array of units:
 * elements of dense weights, blocks of packed ones. */
#include "lib/runtime/session/pieces.h"

#include <string.h>

#include "lib/runtime/program/components.h"
#include "lib/runtime/program/guarded.h"
#include "lib/runtime/program/mapping.h"
#include "nabla/dynamic8.h"

/* The part [start, start + size) of each dimension, of which `valid` lie in the
 * array: the others are padding. */
typedef struct box {
  uint32_t rank;
  uint64_t whole[NABLA_ARRAY_MAX_RANK];
  uint64_t start[NABLA_ARRAY_MAX_RANK], size[NABLA_ARRAY_MAX_RANK];
  uint64_t valid[NABLA_ARRAY_MAX_RANK];
} box;

/* In elements, of an array of the shape `whole`. */
static box box_of(uint32_t dims, const int64_t *whole, const int64_t *local,
                  const nabla_argument_cut *cut, uint32_t place) {
  box b = {.rank = dims};
  uint64_t index[NABLA_ARRAY_MAX_RANK] = {0};
  for (uint32_t i = 0; i < cut->count; i++) {
    const nabla_cut_place *at = &cut->at[i];
    index[at->dim] = index[at->dim] * at->size + place / at->stride % at->size;
  }
  for (uint32_t i = 0; i < dims; i++) {
    b.whole[i] = (uint64_t)whole[i];
    b.size[i] = (uint64_t)local[i];
    b.start[i] = index[i] * b.size[i];
    if (b.start[i] > b.whole[i]) b.start[i] = b.whole[i];
    const uint64_t left = b.whole[i] - b.start[i];
    b.valid[i] = left < b.size[i] ? left : b.size[i];
  }
  return b;
}

static int is_padded(const box *b) {
  for (uint32_t i = 0; i < b->rank; i++)
    if (b->valid[i] < b->size[i]) return 1;
  return 0;
}

/* Elements of a unit. */
static uint64_t unit_of(const nabla_port *port) {
  if (port->layout.kind == NABLA_STORAGE_BLOCKS)
    return port->layout.ggml->elements;
  return port->layout.kind == NABLA_STORAGE_PLANES ? port->layout.format.block
                                                   : 1;
}

/* Whether the part lies in a row; where it begins and how long it is, in
 * elements. */
static int is_row(const box *b, uint64_t *first, uint64_t *count) {
  uint32_t i = 0;
  uint64_t stride = 1;
  *first = 0;
  *count = 1;
  if (is_padded(b)) return 0;
  while (i < b->rank && b->size[i] == 1) i++;
  for (uint32_t k = i + 1; k < b->rank; k++)
    if (b->size[k] != b->whole[k]) return 0;
  for (uint32_t k = b->rank; k-- > 0; stride *= b->whole[k]) {
    *first += b->start[k] * stride;
    *count *= b->size[k];
  }
  return 1;
}

/* Makes units of the elements of the last dimension; 0 where no unit begins or
 * ends there. */
static int to_units(box *b, uint64_t unit) {
  const uint32_t last = b->rank - 1;
  if (unit == 1) return 1;
  if (!b->rank || b->whole[last] % unit || b->start[last] % unit ||
      b->size[last] % unit)
    return 0;
  b->whole[last] /= unit;
  b->start[last] /= unit;
  b->size[last] /= unit;
  b->valid[last] /= unit;
  return 1;
}

/* The runs of a part along the last dimension: where each begins in the array
 * and in the part. */
typedef struct runs {
  const box *b;
  uint64_t offset, place, count;
  uint64_t at[NABLA_ARRAY_MAX_RANK];
  int has_begun;
} runs;

/* Goes to the first run, or to the next; 0: there is none. */
static int next_run(runs *r) {
  const box *b = r->b;
  uint32_t i = b->rank ? b->rank - 1 : 0;
  if (!r->has_begun) {
    for (uint32_t k = 0; k < b->rank; k++)
      if (!b->valid[k]) return 0;
    r->count = b->rank ? b->valid[i] : 1;
    r->has_begun = 1;
  } else {
    while (i-- > 0 && ++r->at[i] == b->valid[i]) r->at[i] = 0;
    if (i == UINT32_MAX) return 0;
  }
  r->offset = r->place = 0;
  for (uint32_t k = 0; k < b->rank; k++) {
    r->offset = r->offset * b->whole[k] + b->start[k] + r->at[k];
    r->place = r->place * b->size[k] + r->at[k];
  }
  return 1;
}

/* Copies the part, whose units have so many bytes; padding is 0. */
static void copy_box(const box *b, uint64_t bytes, const uint8_t *from,
                     uint8_t *to) {
  runs r = {.b = b};
  uint64_t all = bytes;
  for (uint32_t i = 0; i < b->rank; i++) all *= b->size[i];
  if (is_padded(b)) memset(to, 0, (size_t)all);
  while (next_run(&r))
    memcpy(to + r.place * bytes, from + r.offset * bytes,
           (size_t)(r.count * bytes));
}

void nabla_piece_copy(const nabla_argument_cut *cut, uint32_t place,
                      const nabla_dense *from, const int64_t *local, void *to) {
  const box b = box_of(from->rank, from->shape, local, cut, place);
  for (uint32_t i = 0; i < b.rank; i++)
    if (!b.size[i]) return;
  if (b.rank) copy_box(&b, nabla_element_size(from->dtype), from->data, to);
}

const void *nabla_piece_in_place(const nabla_argument_cut *cut, uint32_t place,
                                 const nabla_dense *from,
                                 const int64_t *local) {
  const box b = box_of(from->rank, from->shape, local, cut, place);
  uint64_t first, count;
  if (!is_row(&b, &first, &count)) return NULL;
  return (const uint8_t *)from->data + first * nabla_element_size(from->dtype);
}

/* ---- weights ------------------------------------------------------------ */

typedef struct taking {
  nabla_allocations *blocks;
  const nabla_allocator *allocator;
  const nabla_port *port;
  const nabla_argument_cut *cut;
  uint32_t place;      /* of the rank in the mesh                          */
  uint64_t copied;     /* bytes that were allocated for copies             */
  nabla_binding *room; /* copies of a run before, which are written again, */
                       /* and new ones; NULL: none are kept                */
  box elements;
  nabla_diag *diag;
} taking;

static nabla_status refuse(const taking *t) {
  return nabla_fail(t->diag, NABLA_CORRUPT,
                    "argument '%.60s' is divided where no block begins",
                    t->port->name);
}

/* Memory for the copy of a component. */
static nabla_status allocate(taking *t, uint32_t component, uint64_t bytes,
                             void **out) {
  *out = t->room ? (void *)(uintptr_t)t->room->data[component] : NULL;
  if (*out) return NABLA_OK;
  *out = nabla_allocations_allocate(t->blocks, t->allocator, bytes);
  t->copied += bytes;
  if (t->room) t->room->data[component] = *out;
  if (*out) return NABLA_OK;
  return nabla_fail(t->diag, NABLA_NO_MEMORY,
                    "cannot allocate %llu bytes for a piece of '%.60s'",
                    (unsigned long long)bytes, t->port->name);
}

/* Bytes of a unit in a component; the last one may be shorter. */
static uint64_t unit_bytes(const nabla_port *port,
                           const nabla_component_slot *slot, uint64_t unit,
                           uint64_t units) {
  if (port->layout.kind == NABLA_STORAGE_PLANES && !strcmp(slot->name, "codes"))
    return unit * port->layout.format.encoding->bits / 8;
  return slot->bytes / units;
}

/* Component `at`: `whole` and `local` are its sizes. */
static nabla_status take_component(taking *t, uint32_t at,
                                   const nabla_component_slot *whole,
                                   const nabla_component_slot *local,
                                   const void *data, const void **out) {
  const uint64_t unit = unit_of(t->port);
  uint64_t first, count, all = 1;
  box b = t->elements;
  for (uint32_t i = 0; i < b.rank; i++) all *= b.whole[i];
  if (!local->bytes) return *out = data, NABLA_OK;
  const uint64_t units = (all + unit - 1) / unit;
  const uint64_t bytes = unit_bytes(t->port, whole, unit, units);
  if (is_row(&b, &first, &count)) {
    if (first % unit) return refuse(t);
    *out = (const uint8_t *)data + first / unit * bytes;
    if ((uintptr_t)*out % nabla_element_size(whole->dtype) == 0)
      return NABLA_OK;
    void *copy;
    NABLA_TRY(allocate(t, at, local->bytes, &copy));
    memcpy(copy, *out, (size_t)local->bytes);
    *out = copy;
    return NABLA_OK;
  }
  if (!to_units(&b, unit) || units * bytes != whole->bytes) return refuse(t);
  void *copy;
  NABLA_TRY(allocate(t, at, local->bytes, &copy));
  copy_box(&b, bytes, data, copy);
  if (!t->room) nabla_mapping_drop(data, whole->bytes);
  *out = copy;
  return NABLA_OK;
}

/* Components of scales in 8 bits: codes of the array, codes of the scales,
 * absmax of each group of these, offset, map. */
enum { SCALES = 1, ABSMAX, OFFSET, MAP };

/* The scales of the piece in f32: groups of scales that share an absmax end
 * anywhere in it. */
static nabla_status decode_scales(taking *t, const nabla_binding *bound,
                                  uint64_t bytes, const void **out) {
  const uint64_t unit = unit_of(t->port);
  const uint8_t *codes = bound->data[SCALES];
  const float *absmax = bound->data[ABSMAX];
  nabla_dynamic8 how = {.block = t->port->layout.nested_block};
  uint64_t first, count;
  box b = t->elements;
  memcpy(&how.offset, bound->data[OFFSET], sizeof how.offset);
  memcpy(how.map, bound->data[MAP], sizeof how.map);
  if (is_row(&b, &first, &count)) {
    if (first % unit) return refuse(t);
    const uint64_t scales = bytes / sizeof(float);
    b = (box){1, {scales}, {first / unit}, {scales}, {scales}};
  } else if (!to_units(&b, unit)) {
    return refuse(t);
  }
  void *decoded;
  NABLA_TRY(allocate(t, SCALES, bytes, &decoded));
  for (runs r = {.b = &b}; next_run(&r);)
    nabla_dynamic8_decode(&how, codes + r.offset, absmax + r.offset / how.block,
                          (size_t)(r.offset % how.block), (size_t)r.count,
                          (float *)decoded + r.place);
  *out = decoded;
  return NABLA_OK;
}

/* Sizes that the program does not know are those that were bound: they have to
 * be divided evenly. */
static nabla_status find_sizes(const taking *t, const nabla_binding *bound,
                               nabla_port *whole, nabla_port *local) {
  for (uint32_t i = 0; i < t->port->rank; i++) {
    int64_t pieces = 1;
    for (uint32_t k = 0; k < t->cut->count; k++)
      if (t->cut->at[k].dim == i) pieces *= t->cut->at[k].size;
    if (whole->shape[i] != NABLA_DYNAMIC) continue;
    whole->shape[i] = bound->shape[i];
    local->shape[i] = bound->shape[i] / pieces;
    if (bound->shape[i] % pieces)
      return nabla_fail(t->diag, NABLA_INVALID_ARGUMENT,
                        "'%.60s' has %lld elements along dimension %u, which "
                        "%lld ranks do not divide evenly",
                        t->port->name, (long long)bound->shape[i], i,
                        (long long)pieces);
  }
  return NABLA_OK;
}

static nabla_status take_weight(taking *t, const nabla_binding *bound,
                                nabla_binding *out) {
  nabla_component_slots whole, local;
  *out = *bound;
  nabla_port dense = *t->port, dense_local = t->cut->local;
  NABLA_TRY(find_sizes(t, bound, &dense, &dense_local));
  for (uint32_t i = 0; i < t->port->rank; i++)
    out->shape[i] = dense_local.shape[i];
  t->elements =
      box_of(dense.rank, dense.shape, dense_local.shape, t->cut, t->place);
  NABLA_TRY(nabla_port_components(&dense, &whole, t->diag));
  NABLA_TRY(nabla_port_components(&dense_local, &local, t->diag));
  const int decodes = dense.layout.format.scale == NABLA_SCALE_DYNAMIC8;
  const uint32_t skipped = decodes ? whole.count - local.count : 0;
  for (uint32_t i = 0; i < local.count; i++) {
    const uint32_t from = i > SCALES ? i + skipped : i;
    NABLA_TRY(decodes && i == SCALES
                  ? decode_scales(t, bound, local.at[i].bytes, &out->data[i])
                  : take_component(t, i, &whole.at[from], &local.at[i],
                                   bound->data[from], &out->data[i]));
  }
  /* runs, which know the copy alone, cannot see that it is of zeros */
  for (uint32_t i = 0; i < whole.count; i++)
    NABLA_TRY(nabla_guarded_check(bound->data[i], t->diag));
  return NABLA_OK;
}

/* Room for a piece of a dense input. */
static nabla_status make_room(taking *t, nabla_binding *out) {
  const nabla_port *local = &t->cut->local;
  uint64_t bytes = nabla_element_size(local->dtype);
  void *room;
  if (local->component_count || *local->state_name) return NABLA_OK;
  for (uint32_t i = 0; i < local->rank; i++) {
    if (local->shape[i] == NABLA_DYNAMIC) return NABLA_OK; /* when it runs */
    bytes *= (uint64_t)local->shape[i];
  }
  NABLA_TRY(allocate(t, 0, bytes, &room));
  out->data[0] = room;
  return NABLA_OK;
}

/* Whether two arguments, such as those of a weight in two functions, have the
 * same pieces of the same array. */
static int is_same_piece(const nabla_session *session,
                         const nabla_argument_cut *a,
                         const nabla_argument_cut *b) {
  const nabla_binding *bindings = session->executable->bindings;
  const nabla_binding *x = &bindings[a->port], *y = &bindings[b->port];
  if (!y->is_bound || x->data[0] != y->data[0] || a->count != b->count ||
      a->local.rank != b->local.rank ||
      memcmp(x->shape, y->shape, a->local.rank * sizeof *x->shape))
    return 0;
  for (uint32_t i = 0; i < a->count; i++)
    if (a->at[i].dim != b->at[i].dim || a->at[i].size != b->at[i].size ||
        a->at[i].stride != b->at[i].stride)
      return 0;
  return !strcmp(session->executable->manifest.ports[a->port].name,
                 session->executable->manifest.ports[b->port].name);
}

/* The argument before that has the same piece; `cut` where there is none. */
static const nabla_argument_cut *find_piece(const nabla_session *session,
                                            const nabla_argument_cut *cut) {
  const nabla_argument_cut *cuts = session->executable->manifest.cuts;
  while (cuts < cut && !is_same_piece(session, cut, cuts)) cuts++;
  return cuts;
}

/* Takes the piece of a bound weight, once for all functions. */
static nabla_status take_bound(const nabla_session *session, taking *t,
                               const nabla_binding *bound, nabla_binding *out) {
  const nabla_argument_cut *had = find_piece(session, t->cut);
  if (had == t->cut) return take_weight(t, bound, out);
  *out = session->pieces[had->port];
  return NABLA_OK;
}

nabla_status nabla_piece_of_weight(const nabla_run_room *room,
                                   const nabla_port *port,
                                   const nabla_argument_cut *cut,
                                   const nabla_binding *whole,
                                   nabla_binding *out, nabla_diag *diag) {
  for (uint32_t i = 0; i < port->rank; i++)
    if (port->shape[i] == NABLA_DYNAMIC)
      return nabla_fail(diag, NABLA_UNSUPPORTED,
                        "'%.60s' is packed, of unknown size and divided among "
                        "ranks: bind it (nabla_executable_bind)",
                        port->name);
  taking t = {.blocks = room->blocks,
              .allocator = room->allocator,
              .port = port,
              .cut = cut,
              .place = room->rank.place,
              .room = &room->pieces[cut->port],
              .diag = diag};
  return take_weight(&t, whole, out);
}

nabla_status nabla_session_take_pieces(nabla_session *session,
                                       nabla_diag *diag) {
  nabla_executable *executable = session->executable;
  const nabla_manifest *manifest = &executable->manifest;
  void *pieces = NULL;
  if (!manifest->cut_count) return NABLA_OK;
  NABLA_TRY(nabla_alloc(session->allocator, manifest->port_count,
                        sizeof *session->pieces, &pieces, diag));
  session->pieces = pieces;
  memset(pieces, 0, manifest->port_count * sizeof *session->pieces);
  for (size_t i = 0; i < manifest->cut_count; i++) {
    const nabla_argument_cut *cut = &manifest->cuts[i];
    if (cut->is_result) continue;
    const nabla_port *port = &manifest->ports[cut->port];
    const nabla_binding *bound = &executable->bindings[cut->port];
    nabla_binding *out = &session->pieces[cut->port];
    taking t = {.blocks = &session->blocks,
                .allocator = session->allocator,
                .port = port,
                .cut = cut,
                .place = session->rank.place,
                .diag = diag};
    const nabla_status status = bound->is_bound
                                    ? take_bound(session, &t, bound, out)
                                    : make_room(&t, out);
    session->piece_bytes += t.copied;
    NABLA_TRY(status);
  }
  return NABLA_OK;
}

/* What a run of the session reads where a weight is bound; NULL: nothing is. */
static const nabla_binding *weight_of(const nabla_session *session,
                                      size_t port) {
  const nabla_binding *bound = &session->executable->bindings[port];
  if (!bound->is_bound) return NULL;
  if (session->pieces && session->pieces[port].is_bound)
    return &session->pieces[port];
  return bound;
}

static nabla_status count_weight(const nabla_port *port,
                                 const nabla_binding *weight, uint64_t *bytes,
                                 nabla_diag *diag) {
  nabla_port sized = *port;
  nabla_component_slots slots;
  for (uint32_t i = 0; i < port->rank; i++) sized.shape[i] = weight->shape[i];
  NABLA_TRY(nabla_port_components(&sized, &slots, diag));
  for (uint32_t i = 0; i < slots.count; i++) *bytes += slots.at[i].bytes;
  return NABLA_OK;
}

nabla_status nabla_session_count_weights(const nabla_session *session,
                                         uint64_t *out, nabla_diag *diag) {
  const nabla_manifest *manifest = &session->executable->manifest;
  *out = 0;
  for (size_t i = 0; i < manifest->port_count; i++) {
    const nabla_binding *weight = weight_of(session, i), *other = NULL;
    if (!weight) continue;
    for (size_t k = 0; k < i; k++) {
      other = weight_of(session, k);
      if (other && other->data[0] == weight->data[0]) break;
      other = NULL;
    }
    if (other) continue;
    NABLA_TRY(count_weight(&manifest->ports[i], weight, out, diag));
  }
  return NABLA_OK;
}
