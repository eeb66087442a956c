/* Writes dynamic8 codes of scales and the tensors that describe them
 * (docs/FORMAT.md, E6), once all scales are known. Two passes over the scales
 * of all tensors, in pieces for the workers: sums of chunks, then codes. */
#include <string.h>

#include "lib/base/bytes.h"
#include "lib/base/checked.h"
#include "quant/formats/checkpoint_internal.h"
#include "quant/write/write_internal.h"

/* Largest number of scales in a piece: whole chunks of the sum, and whole
 * groups. */
enum { PIECE_MAX = 1 << 15, CHUNKS = PIECE_MAX / NABLA_DYNAMIC8_CHUNK };

/* A tensor with dynamic8 scales. */
typedef struct nested {
  const nabla_item *item;
  uint64_t scales;
  float offset;
} nested;

typedef struct nest {
  nabla_file_job *job;
  nested *tensors;
  uint64_t *first; /* first piece of each tensor, and number of pieces */
  double *sums;    /* CHUNKS sums for each piece */
  size_t count, room;
  uint64_t piece; /* scales per piece */
} nest;

/* A range of the scales of one tensor. */
typedef struct piece {
  const nested *of;
  nabla_tensor tensor;
  nabla_components parts;
  uint64_t at;
  size_t count;
} piece;

static const nabla_allocator *allocator_of(const nabla_file_job *job) {
  return job->task->environment ? job->task->environment->allocator : NULL;
}

static nabla_status open_tensor(const nest *n, const nested *of, piece *out,
                                nabla_diag *diag) {
  const nabla_format format = nabla_item_format(n->job, of->item);
  *out = (piece){.of = of,
                 .tensor = nabla_checkpoint_tensor(n->job->task->checkpoint,
                                                   of->item->index)};
  return nabla_components_of(&out->tensor, &format, n->job->task->layout,
                             &out->parts, diag);
}

static nabla_status read_piece(const nest *n, uint64_t number,
                               nabla_scratch *scratch, piece *out,
                               nabla_diag *diag) {
  const uint64_t owner = nabla_tile_owner(n->first, n->count, number);
  NABLA_TRY(open_tensor(n, &n->tensors[owner], out, diag));
  out->at = (number - n->first[owner]) * n->piece;
  const uint64_t left = out->of->scales - out->at;
  out->count = (size_t)(left < n->piece ? left : n->piece);
  return nabla_spill_read(n->job->spill, out->of->item->spill + out->at,
                          scratch->values, out->count, diag);
}

static size_t id_of(const piece *p, nabla_component_kind kind) {
  size_t i = 0;
  while (p->parts.item[i].kind != kind) i++;
  return p->of->item->id + i;
}

static nabla_status put_floats(const nest *n, const piece *p,
                               nabla_component_kind kind, uint64_t at,
                               float *values, size_t count, nabla_diag *diag) {
  for (size_t i = 0; i < count; i++)
    nabla_store_le32(&values[i], nabla_bits_of_f32(values[i]));
  return nabla_safetensors_writer_write(n->job->writer, id_of(p, kind),
                                        at * sizeof *values, values,
                                        count * sizeof *values, diag);
}

/* ---- what workers do ---------------------------------------------------- */

static nabla_status sum_tile(nabla_run *run, uint32_t worker, uint64_t tile,
                             nabla_diag *diag) {
  const nest *n = run->self;
  nabla_scratch *scratch = &n->job->scratches[worker];
  piece p;
  NABLA_TRY(read_piece(n, tile, scratch, &p, diag));
  double *sums = n->sums + tile * CHUNKS;
  for (size_t at = 0; at < p.count; at += NABLA_DYNAMIC8_CHUNK) {
    const size_t left = p.count - at;
    sums[at / NABLA_DYNAMIC8_CHUNK] = nabla_dynamic8_add(
        0, scratch->values + at,
        left < NABLA_DYNAMIC8_CHUNK ? left : NABLA_DYNAMIC8_CHUNK);
  }
  return NABLA_OK;
}

static nabla_status code_tile(nabla_run *run, uint32_t worker, uint64_t tile,
                              nabla_diag *diag) {
  const nest *n = run->self;
  nabla_scratch *scratch = &n->job->scratches[worker];
  float *absmax = scratch->scales;
  uint8_t *codes = scratch->raw;
  piece p;
  NABLA_TRY(read_piece(n, tile, scratch, &p, diag));
  if (!nabla_dynamic8_encode(scratch->values, p.count, p.of->offset, codes,
                             absmax)) {
    nabla_status status = nabla_fail(
        diag, NABLA_UNSUPPORTED, "its scales are too far apart for dynamic8");
    nabla_diag_set_next(diag, "use scales of f32");
    return nabla_checkpoint_blame(n->job->task->checkpoint, &p.tensor, status,
                                  diag);
  }
  NABLA_TRY(nabla_safetensors_writer_write(n->job->writer,
                                           id_of(&p, NABLA_COMPONENT_SCALES),
                                           p.at, codes, p.count, diag));
  return put_floats(
      n, &p, NABLA_COMPONENT_NESTED_SCALES, p.at / NABLA_DYNAMIC8_BLOCK, absmax,
      (size_t)nabla_ceil_div_u64(p.count, NABLA_DYNAMIC8_BLOCK), diag);
}

static uint64_t locate(const nabla_run *run, uint64_t tile,
                       const char **out_name) {
  const nest *n = run->self;
  const uint64_t owner = nabla_tile_owner(n->first, n->count, tile);
  *out_name = nabla_item_name(n->job, n->tensors[owner].item);
  return n->job->tensors_before;
}

static nabla_status run_pass(nest *n,
                             nabla_status (*tile)(nabla_run *, uint32_t,
                                                  uint64_t, nabla_diag *),
                             nabla_diag *diag) {
  const nabla_write_task *task = n->job->task;
  nabla_run run = {.environment = task->environment,
                   .phase = "quantize",
                   .tiles = n->first[n->count],
                   .bytes_total = task->bytes_total,
                   .tensors_total = task->tensors_total,
                   .tile = tile,
                   .locate = locate,
                   .self = n,
                   .bytes_done = n->job->bytes_before};
  return nabla_run_tiles(&run, diag);
}

/* ---- one tensor after the other ----------------------------------------- */

/* Adds the sums of chunks in their order, so that the result does not depend on
 * the threads. */
static void find_offsets(nest *n) {
  for (size_t i = 0; i < n->count; i++) {
    nested *t = &n->tensors[i];
    double sum = 0;
    for (uint64_t at = 0; at < t->scales; at += NABLA_DYNAMIC8_CHUNK) {
      const uint64_t number = n->first[i] + at / n->piece;
      sum += n->sums[number * CHUNKS + at % n->piece / NABLA_DYNAMIC8_CHUNK];
    }
    t->offset = nabla_dynamic8_offset(sum, t->scales);
  }
}

static nabla_status put_offset(const nest *n, const piece *p,
                               nabla_diag *diag) {
  const nabla_format format = nabla_item_format(n->job, p->of->item);
  const nabla_layout layout = n->job->task->layout;
  float offset = p->of->offset;
  if (!nabla_description_is_late(&format, layout))
    return put_floats(n, p, NABLA_COMPONENT_NESTED_OFFSET, 0, &offset, 1, diag);
  nabla_description_text text = {.size = 0};
  NABLA_TRY(nabla_description_write(&p->tensor, &format, layout, offset, &text,
                                    diag));
  return nabla_safetensors_writer_write(n->job->writer,
                                        id_of(p, NABLA_COMPONENT_DESCRIPTION),
                                        0, text.data, text.size, diag);
}

static nabla_status describe(const nest *n, nabla_diag *diag) {
  float map[NABLA_DYNAMIC8_CODES];
  for (size_t i = 0; i < n->count; i++) {
    piece p;
    NABLA_TRY(open_tensor(n, &n->tensors[i], &p, diag));
    memcpy(map, nabla_dynamic8_map(), sizeof map);
    NABLA_TRY(put_floats(n, &p, NABLA_COMPONENT_NESTED_MAP, 0, map,
                         NABLA_DYNAMIC8_CODES, diag));
    NABLA_TRY(put_offset(n, &p, diag));
  }
  return NABLA_OK;
}

/* ---- the list of them --------------------------------------------------- */

static int is_nested(const nabla_file_job *job, const nabla_item *item) {
  return item->kind == NABLA_ITEM_ENCODE &&
         nabla_item_format(job, item).scale == NABLA_SCALE_DYNAMIC8;
}

static nabla_status list_tensors(nest *n, nabla_diag *diag) {
  const nabla_file_job *job = n->job;
  for (size_t i = 0; i < job->count; i++) {
    const nabla_item *item = &job->items[i];
    if (!is_nested(job, item)) continue;
    const nabla_format format = nabla_item_format(job, item);
    nabla_packed_size size;
    NABLA_TRY(nabla_format_size(
        &format,
        nabla_checkpoint_tensor(job->task->checkpoint, item->index).elements,
        &size, diag));
    n->tensors[n->count] = (nested){.item = item, .scales = size.scales};
    n->first[n->count + 1] =
        n->first[n->count] + nabla_ceil_div_u64(size.scales, n->piece);
    n->count++;
  }
  return NABLA_OK;
}

static nabla_status run_passes(nest *n, nabla_diag *diag) {
  const nabla_allocator *allocator = allocator_of(n->job);
  void *block;
  NABLA_TRY(list_tensors(n, diag));
  const size_t pieces = (size_t)n->first[n->count];
  NABLA_TRY(
      nabla_alloc(allocator, pieces, CHUNKS * sizeof(double), &block, diag));
  n->sums = block;
  nabla_status status = run_pass(n, sum_tile, diag);
  if (!status) {
    find_offsets(n);
    status = run_pass(n, code_tile, diag);
  }
  if (!status) status = describe(n, diag);
  nabla_free(allocator, block, pieces, CHUNKS * sizeof(double));
  return status;
}

nabla_status nabla_file_job_nest(nabla_file_job *job, nabla_diag *diag) {
  const nabla_allocator *allocator = allocator_of(job);
  nest n = {.job = job, .piece = job->tile < PIECE_MAX ? job->tile : PIECE_MAX};
  void *block;
  if (!job->spill) return NABLA_OK;
  for (size_t i = 0; i < job->count; i++)
    n.room += is_nested(job, &job->items[i]) != 0;
  NABLA_TRY(nabla_alloc(allocator, n.room, sizeof(nested), &block, diag));
  n.tensors = block;
  nabla_status status =
      nabla_alloc(allocator, n.room + 1, sizeof(uint64_t), &block, diag);
  if (!status) {
    n.first = block;
    status = run_passes(&n, diag);
  }
  nabla_free(allocator, n.first, n.room + 1, sizeof(uint64_t));
  nabla_free(allocator, n.tensors, n.room, sizeof(nested));
  return status;
}
