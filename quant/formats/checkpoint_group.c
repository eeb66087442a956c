/* Groups companion tensors with their weight and checks each group: what is
 * left are the logical tensors of a checkpoint. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/bytes.h"
#include "lib/base/checked.h"
#include "lib/base/sort.h"
#include "quant/codec/codec.h"
#include "quant/formats/checkpoint_internal.h"

enum {
  MAX_STATES = 0
#define ENCODING(...) +1
#include "quant/codec/encodings.def"
#undef ENCODING
};

typedef struct grouper {
  nabla_checkpoint *checkpoint;
  uint8_t **companion;            /* one bit per entry of each shard */
  const char *states[MAX_STATES]; /* suffixes of bitsandbytes' 4-bit states */
  size_t state_sizes[MAX_STATES], state_count;
  nabla_diag *diag;
} grouper;

static void find_states(grouper *g) {
  size_t count;
  const nabla_encoding *rows = nabla_encodings(&count);
  for (size_t i = 0; i < count; i++) {
    if (!rows[i].in_bitsandbytes || rows[i].bits != 4) continue;
    g->states[g->state_count] = nabla_state_suffix(i);
    g->state_sizes[g->state_count] = strlen(nabla_state_suffix(i));
    g->state_count++;
  }
}

static nabla_entry entry_of(const grouper *g, nabla_part part) {
  return nabla_tensor_file_entry(g->checkpoint->shards[part.shard].file,
                                 part.entry);
}

static void mark(grouper *g, nabla_part part) {
  g->companion[part.shard][part.entry / 8] |= (uint8_t)(1u << part.entry % 8);
}

static int is_marked(const grouper *g, nabla_part part) {
  return g->companion[part.shard][part.entry / 8] >> part.entry % 8 & 1;
}

/* Most names differ in the last byte: it is compared first. */
static inline int has_suffix(const nabla_entry *entry, const char *suffix,
                             size_t size) {
  return entry->name_length > size &&
         entry->name[entry->name_length - 1] == suffix[size - 1] &&
         !memcmp(entry->name + entry->name_length - size, suffix, size);
}

static nabla_status fail_at(const grouper *g, nabla_part part,
                            nabla_status status) {
  const nabla_entry entry = entry_of(g, part);
  nabla_diag_set_file(g->diag, nabla_tensor_file_borrow_path(
                                   g->checkpoint->shards[part.shard].file));
  nabla_diag_set_tensor(g->diag, entry.name, entry.name_length);
  return status;
}

static nabla_status corrupt(const grouper *g, nabla_part part,
                            const char *what) {
  return fail_at(g, part, nabla_fail(g->diag, NABLA_CORRUPT, "%s", what));
}

/* Finds the tensor named by `stem` bytes of `entry`'s name and `suffix`. */
static int find(const grouper *g, nabla_part from, size_t stem,
                const char *suffix, nabla_part *out) {
  const nabla_entry entry = entry_of(g, from);
  char name[NABLA_TENSOR_FILE_MAX_NAME + 64];
  const size_t size = strlen(suffix);
  if (stem + size > NABLA_TENSOR_FILE_MAX_NAME) return 0;
  memcpy(name, entry.name, stem);
  memcpy(name + stem, suffix, size);
  return nabla_checkpoint_find_entry(g->checkpoint, from.shard, name,
                                     stem + size, out);
}

static nabla_status add_packed(grouper *g, const nabla_packed_entry *packed,
                               const uint64_t *shape) {
  nabla_packed_entry copy = *packed;
  copy.shape = (uint32_t)(g->checkpoint->shapes.size / sizeof(uint64_t));
  NABLA_TRY(nabla_buffer_append(&g->checkpoint->shapes, shape,
                                packed->rank * sizeof *shape, g->diag));
  return nabla_buffer_append(&g->checkpoint->packed, &copy, sizeof copy,
                             g->diag);
}

/* Reads the JSON of a description and parses it. */
static nabla_status describe(grouper *g, nabla_part part, nabla_layout layout,
                             const char *encoding, nabla_description *out) {
  const nabla_entry entry = entry_of(g, part);
  if (entry.dtype != NABLA_DTYPE_U8 || entry.rank != 1)
    return corrupt(g, part, "a description is no vector of U8");
  if (entry.bytes > NABLA_CHECKPOINT_MAX_STATE)
    return fail_at(
        g, part,
        nabla_fail(g->diag, NABLA_TOO_LARGE,
                   "a description of %" PRIu64 " bytes, the limit is %u",
                   entry.bytes, NABLA_CHECKPOINT_MAX_STATE));
  void *text;
  const size_t size = (size_t)entry.bytes;
  NABLA_TRY(nabla_alloc(g->checkpoint->allocator, size, 1, &text, g->diag));
  nabla_status status =
      nabla_tensor_file_read(g->checkpoint->shards[part.shard].file, part.entry,
                             0, text, size, g->diag);
  const nabla_description_source source = {layout, encoding, text, size,
                                           entry.offset};
  if (!status)
    status = nabla_description_parse(g->checkpoint->allocator, &source, out,
                                     g->diag);
  nabla_free(g->checkpoint->allocator, text, size, 1);
  return status ? fail_at(g, part, status) : NABLA_OK;
}

static nabla_status check_vector(grouper *g, nabla_part part, const char *what,
                                 uint64_t count, nabla_dtype dtype) {
  const nabla_entry entry = entry_of(g, part);
  if (entry.dtype == dtype && entry.elements == count) return NABLA_OK;
  return fail_at(
      g, part,
      nabla_fail(g->diag, NABLA_CORRUPT,
                 "%" PRIu64 " %s of %s, the weight needs %" PRIu64 " of %s",
                 entry.elements, what, nabla_dtype_name(entry.dtype), count,
                 nabla_dtype_name(dtype)));
}

/* (B2), (N4): codes and scales have exactly the sizes that the description
 * implies. */
static nabla_status check_sizes(grouper *g, const nabla_packed_entry *packed) {
  const nabla_entry codes = entry_of(g, packed->data);
  nabla_packed_size size;
  nabla_status status =
      nabla_format_size(&packed->format, packed->elements, &size, g->diag);
  if (status) return fail_at(g, packed->data, status);
  if (codes.bytes != size.code_bytes) {
    status = nabla_fail(g->diag, NABLA_CORRUPT,
                        "%" PRIu64
                        " bytes of codes, its description needs "
                        "%" PRIu64,
                        codes.bytes, size.code_bytes);
    return fail_at(g, packed->data, status);
  }
  NABLA_TRY(check_vector(g, packed->scales, "scales", size.scales,
                         nabla_scale_info_of(packed->format.scale)->dtype));
  if (!packed->format.zero_point) return NABLA_OK;
  return check_vector(g, packed->zero_points, "zero points", size.scales,
                      nabla_code_dtype(packed->format.encoding));
}

/* (B3): other 4-bit tables than bitsandbytes' own decode differently. Readers
 * use the table of the file; this build has its own and insists. */
static nabla_status check_table(grouper *g, nabla_part part,
                                nabla_packed_entry *packed) {
  const nabla_entry entry = entry_of(g, part);
  if (entry.dtype != NABLA_DTYPE_F32 || entry.elements != NABLA_TABLE_VALUES)
    return corrupt(g, part, "a quant_map is no vector of 16 F32");
  uint8_t bytes[NABLA_TABLE_VALUES * 4];
  NABLA_TRY(nabla_tensor_file_read(g->checkpoint->shards[part.shard].file,
                                   part.entry, 0, bytes, sizeof bytes,
                                   g->diag));
  float table[NABLA_TABLE_VALUES];
  nabla_encoding_table(packed->format.encoding, table);
  for (int i = 0; i < NABLA_TABLE_VALUES; i++) {
    const float value = nabla_f32_of_bits(nabla_load_le32(bytes + 4 * i));
    if (!(fabsf(value - table[i]) <= 1e-6f))
      snprintf(packed->unsupported, sizeof packed->unsupported,
               "its quant_map differs from the %s table at code %d",
               packed->format.encoding->name, i);
  }
  return NABLA_OK;
}

static nabla_status read_floats(grouper *g, nabla_part part, float *out,
                                size_t count) {
  NABLA_TRY(nabla_tensor_file_read(g->checkpoint->shards[part.shard].file,
                                   part.entry, 0, out, count * sizeof *out,
                                   g->diag));
  for (size_t i = 0; i < count; i++) {
    out[i] = nabla_f32_of_bits(nabla_load_le32(&out[i]));
    if (isfinite(out[i])) continue;
    return fail_at(
        g, part,
        nabla_fail(g->diag, NABLA_CORRUPT, "element %zu is not finite", i));
  }
  return NABLA_OK;
}

/* (B5), (N6): the scales of the scales. `offset` is a part in the Nabla layout
 * and in the description of bitsandbytes. */
static nabla_status add_nested(grouper *g, nabla_packed_entry *packed,
                               const nabla_description *text, nabla_part absmax,
                               nabla_part map, const nabla_part *offset) {
  nabla_nested nested = {.absmax = absmax};
  nabla_packed_size size;
  nested.how.block =
      text->nested_block ? (uint32_t)text->nested_block : NABLA_DYNAMIC8_BLOCK;
  nested.how.offset = text->nested_offset;
  nabla_status status =
      nabla_format_size(&packed->format, packed->elements, &size, g->diag);
  if (status) return fail_at(g, packed->data, status);
  NABLA_TRY(check_vector(g, absmax, "nested scales",
                         nabla_ceil_div_u64(size.scales, nested.how.block),
                         NABLA_DTYPE_F32));
  NABLA_TRY(check_vector(g, map, "values of a map", NABLA_DYNAMIC8_CODES,
                         NABLA_DTYPE_F32));
  NABLA_TRY(read_floats(g, map, nested.how.map, NABLA_DYNAMIC8_CODES));
  if (offset) {
    if (entry_of(g, *offset).rank)
      return corrupt(g, *offset, "an offset is no scalar");
    NABLA_TRY(check_vector(g, *offset, "offsets", 1, NABLA_DTYPE_F32));
    NABLA_TRY(read_floats(g, *offset, &nested.how.offset, 1));
  }
  packed->nested = (uint32_t)(g->checkpoint->nested.size / sizeof nested);
  return nabla_buffer_append(&g->checkpoint->nested, &nested, sizeof nested,
                             g->diag);
}

static uint64_t sum_bytes(const grouper *g, const nabla_part *parts,
                          size_t count) {
  uint64_t sum = 0;
  for (size_t i = 0; i < count; i++)
    if (!nabla_add_u64(sum, entry_of(g, parts[i]).bytes, &sum))
      return UINT64_MAX;
  return sum;
}

/* What this build cannot decode is listed, not refused (a reader of one tensor
 * need not care about another). */
static void find_unsupported(nabla_packed_entry *packed,
                             const nabla_description *text) {
  memcpy(packed->unsupported, text->unsupported, sizeof packed->unsupported);
  if (packed->unsupported[0]) return;
  const char *why = NULL;
  nabla_packed_size size;
  if (text->elements == 0) why = "it is packed but has no elements";
  /* a size that overflows is an error, when sizes are checked */
  if (!why && nabla_format_size(&text->format, text->elements, &size, NULL) ==
                  NABLA_INVALID_ARGUMENT)
    why = "its block size is unknown to this version";
  if (why) snprintf(packed->unsupported, sizeof packed->unsupported, "%s", why);
}

static void fill(nabla_packed_entry *packed, const nabla_description *text,
                 nabla_layout layout) {
  packed->layout = layout;
  packed->dtype = text->dtype;
  packed->format = text->format;
  packed->rank = text->rank;
  packed->elements = text->elements;
  find_unsupported(packed, text);
}

/* (B2): codes are bytes, or those bytes seen as a float type (bitsandbytes'
 * quant_storage). */
static nabla_status check_storage(grouper *g, nabla_part codes) {
  const nabla_dtype dtype = entry_of(g, codes).dtype;
  if (dtype == NABLA_DTYPE_U8 || nabla_dtype_torch_name(dtype)) return NABLA_OK;
  return fail_at(g, codes,
                 nabla_fail(g->diag, NABLA_CORRUPT,
                            "codes of %s; bitsandbytes stores U8, F16, BF16 "
                            "or F32",
                            nabla_dtype_name(dtype)));
}

/* X + ".quant_state.bitsandbytes__nf4|fp4" (B1)-(B5). */
static nabla_status group_bitsandbytes(grouper *g, nabla_part state,
                                       const char *suffix) {
  const nabla_entry entry = entry_of(g, state);
  const size_t stem = entry.name_length - strlen(suffix);
  nabla_packed_entry packed = {0};
  nabla_description text;
  nabla_part parts[6] = {state};
  size_t count = 1;
  if (!find(g, state, stem, "", &packed.data))
    return corrupt(g, state, "a quant_state without its weight");
  NABLA_TRY(describe(g, state, NABLA_LAYOUT_BITSANDBYTES,
                     suffix + strlen(NABLA_SUFFIX_STATE), &text));
  if (!find(g, state, stem, NABLA_SUFFIX_ABSMAX, &packed.scales))
    return corrupt(g, packed.data, "its .absmax is missing");
  fill(&packed, &text, NABLA_LAYOUT_BITSANDBYTES);
  parts[count++] = packed.data;
  parts[count++] = packed.scales;
  nabla_part map;
  if (!find(g, state, stem, NABLA_SUFFIX_MAP, &map))
    return corrupt(g, packed.data, "its .quant_map is missing");
  parts[count++] = map;
  static const char *const nested[] = {NABLA_SUFFIX_NESTED_ABSMAX,
                                       NABLA_SUFFIX_NESTED_MAP};
  const int is_nested = text.format.scale == NABLA_SCALE_DYNAMIC8;
  for (int i = 0; i < 2 && is_nested; i++)
    if (!find(g, state, stem, nested[i], &parts[count++]))
      return corrupt(g, packed.data, "a nested tensor is missing");
  if (!packed.unsupported[0]) {
    NABLA_TRY(check_storage(g, packed.data));
    NABLA_TRY(check_sizes(g, &packed));
    NABLA_TRY(check_table(g, map, &packed));
    if (is_nested)
      NABLA_TRY(add_nested(g, &packed, &text, parts[4], parts[5], NULL));
  }
  packed.stored_bytes = sum_bytes(g, parts, count);
  for (size_t i = 0; i < count; i++)
    if (parts[i].shard != packed.data.shard ||
        parts[i].entry != packed.data.entry)
      mark(g, parts[i]);
  return add_packed(g, &packed, text.shape);
}

/* (N4): another dtype or shape with as many bytes is another tensor. */
static nabla_status check_codes(grouper *g, const nabla_packed_entry *packed,
                                const uint64_t *shape) {
  const nabla_entry entry = entry_of(g, packed->data);
  const nabla_dtype wanted = nabla_code_dtype(packed->format.encoding);
  if (entry.dtype != wanted)
    return fail_at(
        g, packed->data,
        nabla_fail(g->diag, NABLA_CORRUPT,
                   "codes of %s, the encoding %s has %s",
                   nabla_dtype_name(entry.dtype), packed->format.encoding->name,
                   nabla_dtype_name(wanted)));
  NABLA_TRY(check_sizes(g, packed));
  if (packed->rank == 1 ? entry.rank == 2 && entry.shape[1] == 1
                        : entry.rank == 1)
    return NABLA_OK;
  if (entry.rank != packed->rank ||
      memcmp(entry.shape, shape, entry.rank * sizeof *shape) != 0)
    return corrupt(g, packed->data,
                   packed->rank == 1 ? "its codes are no column of bytes"
                                     : "its codes are no vector of bytes");
  const nabla_status status =
      corrupt(g, packed->data,
              "its codes have the shape of the weight, so that other readers "
              "take them for its values");
  nabla_diag_set_next(g->diag, "quantize the model again from its source");
  return status;
}

/* The weight, its description and what that may ask for. */
enum { MAX_PARTS = 7 };

/* X + ".nabla.format" (N1)-(N6). */
static nabla_status group_nabla(grouper *g, nabla_part format) {
  const nabla_entry entry = entry_of(g, format);
  const size_t stem = entry.name_length - strlen(NABLA_SUFFIX_FORMAT);
  nabla_packed_entry packed = {0};
  nabla_description text;
  if (!find(g, format, stem, "", &packed.data))
    return corrupt(g, format, "a description without its weight");
  NABLA_TRY(describe(g, format, NABLA_LAYOUT_NABLA, NULL, &text));
  fill(&packed, &text, NABLA_LAYOUT_NABLA);
  nabla_part nested[3];
  const int is_known = !packed.unsupported[0];
  const int is_nested = text.format.scale == NABLA_SCALE_DYNAMIC8;
  const struct {
    const char *suffix;
    int needed;
    nabla_part *out;
  } companions[] = {
      {NABLA_SUFFIX_SCALES, 1, &packed.scales},
      {NABLA_SUFFIX_ZERO_POINTS, text.format.zero_point, &packed.zero_points},
      {NABLA_SUFFIX_NESTED_SCALES, is_nested, &nested[0]},
      {NABLA_SUFFIX_NESTED_TABLE, is_nested, &nested[1]},
      {NABLA_SUFFIX_NESTED_OFFSET, is_nested, &nested[2]},
  };
  nabla_part parts[MAX_PARTS] = {packed.data, format};
  size_t count = 2;
  for (size_t i = 0; i < sizeof companions / sizeof *companions; i++) {
    /* what a newer version has is its own, but goes with its weight */
    if (is_known && !companions[i].needed) continue;
    if (find(g, format, stem, companions[i].suffix, companions[i].out)) {
      parts[count++] = *companions[i].out;
    } else if (is_known) {
      char what[64];
      snprintf(what, sizeof what, "its %s is missing", companions[i].suffix);
      return corrupt(g, packed.data, what);
    }
  }
  if (is_known) {
    NABLA_TRY(check_codes(g, &packed, text.shape));
    if (is_nested)
      NABLA_TRY(
          add_nested(g, &packed, &text, nested[0], nested[1], &nested[2]));
  }
  packed.stored_bytes = sum_bytes(g, parts, count);
  for (size_t i = 1; i < count; i++) mark(g, parts[i]);
  return add_packed(g, &packed, text.shape);
}

/* P + "SCB" beside an I8 P + "weight" (I1)-(I4). Anything else that happens to
 * be called SCB is a tensor like any other. */
static nabla_status group_int8(grouper *g, nabla_part scb) {
  const nabla_entry entry = entry_of(g, scb);
  const size_t stem = entry.name_length - strlen(NABLA_SUFFIX_SCB);
  nabla_packed_entry packed = {.scales = scb,
                               .dtype = NABLA_DTYPE_F32,
                               .layout = NABLA_LAYOUT_BITSANDBYTES};
  if (stem > 0 && entry.name[stem - 1] != '.') return NABLA_OK;
  if (entry.dtype != NABLA_DTYPE_F32 ||
      !find(g, scb, stem, NABLA_SUFFIX_WEIGHT, &packed.data))
    return NABLA_OK;
  const nabla_entry weight = entry_of(g, packed.data);
  if (weight.dtype != NABLA_DTYPE_I8 || weight.rank < 1 || weight.elements == 0)
    return NABLA_OK;
  packed.rank = weight.rank;
  packed.elements = weight.elements;
  packed.format = (nabla_format){.encoding = nabla_encoding_find("int8"),
                                 .granularity = NABLA_PER_ROW,
                                 .block = weight.elements / weight.shape[0]};
  NABLA_TRY(check_sizes(g, &packed));
  nabla_part parts[3] = {packed.data, scb};
  size_t count = 2;
  if (find(g, scb, stem, NABLA_SUFFIX_ROW_FORMAT, &parts[2])) {
    const nabla_entry mark_entry = entry_of(g, parts[2]);
    uint8_t order = 0;
    if (mark_entry.dtype != NABLA_DTYPE_U8 || mark_entry.bytes != 1)
      return corrupt(g, parts[2], "weight_format is no single U8");
    NABLA_TRY(nabla_tensor_file_read(g->checkpoint->shards[parts[2].shard].file,
                                     parts[2].entry, 0, &order, 1, g->diag));
    if (order)
      snprintf(packed.unsupported, sizeof packed.unsupported,
               "weight_format %u is not row order", order);
    count = 3;
  }
  packed.stored_bytes = sum_bytes(g, parts, count);
  for (size_t i = 1; i < count; i++) mark(g, parts[i]);
  return add_packed(g, &packed, weight.shape);
}

static nabla_status group_one(grouper *g, nabla_part part) {
  const nabla_entry entry = entry_of(g, part);
  const size_t scb = strlen(NABLA_SUFFIX_SCB);
  for (size_t i = 0; i < g->state_count; i++)
    if (has_suffix(&entry, g->states[i], g->state_sizes[i]))
      return group_bitsandbytes(g, part, g->states[i]);
  if (has_suffix(&entry, NABLA_SUFFIX_FORMAT, strlen(NABLA_SUFFIX_FORMAT)))
    return group_nabla(g, part);
  if (has_suffix(&entry, NABLA_SUFFIX_SCB, scb) ||
      (entry.name_length == scb && !memcmp(entry.name, NABLA_SUFFIX_SCB, scb)))
    return group_int8(g, part);
  return NABLA_OK;
}

static int compare_parts(nabla_part a, nabla_part b) {
  if (a.shard != b.shard) return a.shard < b.shard ? -1 : 1;
  return (a.entry > b.entry) - (a.entry < b.entry);
}

/* Finds which packed tensor has its codes at `part`. */
static uint32_t packed_at(const nabla_checkpoint *checkpoint, nabla_part part) {
  const nabla_packed_entry *packed =
      (const nabla_packed_entry *)(const void *)checkpoint->packed.data;
  size_t low = 0, high = checkpoint->packed.size / sizeof *packed;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    const int compared = compare_parts(packed[middle].data, part);
    if (!compared) return (uint32_t)middle;
    if (compared < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return NABLA_NOT_PACKED;
}

static int order_packed(const void *a, const void *b, const void *context) {
  (void)context;
  return compare_parts(((const nabla_packed_entry *)a)->data,
                       ((const nabla_packed_entry *)b)->data);
}

/* Two packed tensors on the same codes are refused. */
static nabla_status sort_packed(grouper *g) {
  nabla_packed_entry *packed =
      (nabla_packed_entry *)(void *)g->checkpoint->packed.data;
  const size_t count = g->checkpoint->packed.size / sizeof *packed;
  NABLA_TRY(nabla_sort(g->checkpoint->allocator, packed, count, sizeof *packed,
                       order_packed, NULL, g->diag));
  for (size_t i = 1; i < count; i++)
    if (!compare_parts(packed[i - 1].data, packed[i].data))
      NABLA_TRY(nabla_checkpoint_note(
          g->checkpoint,
          corrupt(g, packed[i].data, "two descriptions claim this weight"),
          g->diag));
  return NABLA_OK;
}

/* Adds a tensor to the list of weights, unless it is a component of one. */
static nabla_status list_head(grouper *g, nabla_part part) {
  nabla_checkpoint *checkpoint = g->checkpoint;
  const uint32_t packed = packed_at(checkpoint, part);
  if (!is_marked(g, part)) {
    const nabla_head head = {part.shard, (uint32_t)part.entry, packed};
    return nabla_buffer_append(&checkpoint->heads, &head, sizeof head, g->diag);
  }
  if (packed == NABLA_NOT_PACKED) return NABLA_OK;
  return nabla_checkpoint_note(
      checkpoint, corrupt(g, part, "a companion that is itself packed"),
      g->diag);
}

static nabla_status list_heads(grouper *g) {
  const nabla_checkpoint *checkpoint = g->checkpoint;
  for (uint32_t s = 0; s < checkpoint->shard_count; s++) {
    const size_t count = nabla_tensor_file_count(checkpoint->shards[s].file);
    for (size_t i = 0; i < count; i++)
      NABLA_TRY(list_head(g, (nabla_part){s, i}));
  }
  return NABLA_OK;
}

static nabla_status group_all(grouper *g) {
  const nabla_checkpoint *checkpoint = g->checkpoint;
  for (uint32_t s = 0; s < checkpoint->shard_count; s++) {
    const size_t count = nabla_tensor_file_count(checkpoint->shards[s].file);
    for (size_t i = 0; i < count; i++) {
      nabla_status status = group_one(g, (nabla_part){s, i});
      NABLA_TRY(nabla_checkpoint_note(checkpoint, status, g->diag));
    }
  }
  NABLA_TRY(sort_packed(g));
  return list_heads(g);
}

nabla_status nabla_checkpoint_group(nabla_checkpoint *checkpoint,
                                    nabla_diag *diag) {
  const nabla_allocator *allocator = checkpoint->allocator;
  const uint32_t shards = checkpoint->shard_count;
  grouper g = {.checkpoint = checkpoint, .diag = diag};
  find_states(&g);
  void *block;
  NABLA_TRY(nabla_alloc(allocator, shards, sizeof(uint8_t *), &block, diag));
  g.companion = block;
  nabla_status status = NABLA_OK;
  for (uint32_t s = 0; s < shards && !status; s++) {
    status = nabla_alloc(
        allocator, nabla_tensor_file_count(checkpoint->shards[s].file) / 8 + 1,
        1, &block, diag);
    if (!status) g.companion[s] = block;
  }
  if (!status) status = group_all(&g);
  for (uint32_t s = 0; s < shards; s++)
    nabla_free(allocator, g.companion[s],
               nabla_tensor_file_count(checkpoint->shards[s].file) / 8 + 1, 1);
  nabla_free(allocator, g.companion, shards, sizeof(uint8_t *));
  return status;
}
