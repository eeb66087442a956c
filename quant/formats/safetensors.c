/* safetensors as a format of files of tensors: opening, and the rules that
 * concern all tensors together. The format: safetensors/README.md and
 * src/tensor.rs of github.com/huggingface/safetensors. */
#include <inttypes.h>
#include <string.h>

#include "lib/base/bytes.h"
#include "lib/base/checked.h"
#include "lib/base/sort.h"
#include "quant/formats/foreign.h"
#include "quant/formats/safetensors_internal.h"

#define LENGTH_BYTES   8u
#define MARK           "\xef\xbb\xbf" /* byte order mark */
#define MARK_BYTES     3u
#define DOWNLOAD_AGAIN "download or copy it again"

static const char *tensor_name(const void *self, size_t index,
                               size_t *out_length) {
  const nabla_safetensors *file = self;
  const nabla_safetensors_record *record =
      &nabla_safetensors_records(file)[index];
  *out_length = record->name_length;
  return nabla_safetensors_name_of(file, record);
}

static const nabla_safetensors_pair *pairs_of(const nabla_safetensors *file) {
  return (const void *)file->pairs.data;
}

static const char *pair_key(const void *self, size_t index,
                            size_t *out_length) {
  const nabla_safetensors *file = self;
  const nabla_safetensors_pair *pair = &pairs_of(file)[index];
  *out_length = pair->key_length;
  return (const char *)file->texts.data + pair->key;
}

static nabla_status refuse_length(uint64_t length, uint64_t room,
                                  nabla_diag *diag) {
  if (length > NABLA_SAFETENSORS_MAX_HEADER) {
    nabla_status status = nabla_fail(
        diag, NABLA_TOO_LARGE, "a header of %" PRIu64 " bytes; the limit is %u",
        length, NABLA_SAFETENSORS_MAX_HEADER);
    nabla_diag_set_next(diag, "check that it is a safetensors file");
    return status;
  }
  if (length == 0)
    return nabla_fail(diag, NABLA_CORRUPT, "the header has no bytes");
  nabla_status status = nabla_fail(diag, NABLA_CORRUPT,
                                   "a header of %" PRIu64
                                   " bytes, but only %" PRIu64 " bytes follow",
                                   length, room);
  nabla_diag_set_next(diag,
                      DOWNLOAD_AGAIN ": at least %" PRIu64 " bytes are missing",
                      length - room);
  return status;
}

static nabla_status check_length(uint64_t length, uint64_t room,
                                 nabla_diag *diag) {
  if (length > 0 && length <= NABLA_SAFETENSORS_MAX_HEADER && length <= room)
    return NABLA_OK;
  nabla_status status = refuse_length(length, room, diag);
  nabla_diag_set_offset(diag, 0);
  return status;
}

/* Reads the length and refuses a byte order mark, which no JSON text begins
 * with (RFC 8259, section 8.1). */
static nabla_status read_length(const nabla_file *file, uint64_t *out_length,
                                nabla_diag *diag) {
  uint64_t size = nabla_file_size(file), length = 0;
  uint8_t head[LENGTH_BYTES + MARK_BYTES] = {0};
  const uint8_t *mark;
  nabla_cursor cursor = {head, size < sizeof head ? (size_t)size : sizeof head,
                         0};
  NABLA_TRY(nabla_file_read(file, 0, head, cursor.size, diag));
  if (!nabla_cursor_take_u64(&cursor, &length)) {
    nabla_status status = nabla_fail(
        diag, NABLA_CORRUPT,
        "%" PRIu64 " bytes are too few for a safetensors file", size);
    nabla_diag_set_next(diag, DOWNLOAD_AGAIN);
    return status;
  }
  /* a header of a file that is one begins with '{', or with white space */
  if (length > size - LENGTH_BYTES || !strchr("{ \t\r\n", head[LENGTH_BYTES]))
    NABLA_TRY(nabla_foreign_refuse(file, diag));
  NABLA_TRY(check_length(length, size - LENGTH_BYTES, diag));
  if (nabla_cursor_take(&cursor, MARK_BYTES, &mark) &&
      memcmp(mark, MARK, MARK_BYTES) == 0) {
    nabla_status status = nabla_fail(
        diag, NABLA_CORRUPT, "the header begins with a byte order mark");
    nabla_diag_set_offset(diag, LENGTH_BYTES);
    return status;
  }
  *out_length = length;
  return NABLA_OK;
}

static int compare_records(const void *a, const void *b, const void *context) {
  const nabla_safetensors_record *x = a, *y = b;
  (void)context;
  if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
  if (x->end != y->end) return x->end < y->end ? -1 : 1;
  return x->at < y->at ? -1 : x->at > y->at;
}

static nabla_status check_metadata(const nabla_safetensors *file,
                                   nabla_diag *diag) {
  size_t count = file->pairs.size / sizeof(nabla_safetensors_pair);
  nabla_name_index index;
  size_t first, second;
  NABLA_TRY(nabla_name_index_build(&index, file->base.allocator,
                                   (nabla_names){file, pair_key}, count, &first,
                                   &second, diag));
  nabla_name_index_deinit(&index);
  if (second == SIZE_MAX) return NABLA_OK;
  const nabla_safetensors_pair *pair = &pairs_of(file)[second];
  nabla_status status = nabla_fail(
      diag, NABLA_CORRUPT,
      "a second key '%.100s' in __metadata__; the first is at byte %" PRIu32,
      (const char *)file->texts.data + pair->key, pairs_of(file)[first].at);
  nabla_diag_set_offset(diag, pair->at);
  return status;
}

static nabla_status fail_record(const nabla_safetensors *file,
                                const nabla_safetensors_record *record,
                                nabla_status status, nabla_diag *diag) {
  nabla_diag_set_tensor(diag, nabla_safetensors_name_of(file, record),
                        record->name_length);
  nabla_diag_set_offset(diag, record->at);
  return status;
}

static nabla_status index_names(nabla_safetensors *file, nabla_diag *diag) {
  size_t first, second;
  NABLA_TRY(nabla_name_index_build(
      &file->index, file->base.allocator, (nabla_names){file, tensor_name},
      nabla_safetensors_record_count(file), &first, &second, diag));
  if (second == SIZE_MAX) return NABLA_OK;
  const nabla_safetensors_record *a = &nabla_safetensors_records(file)[first];
  const nabla_safetensors_record *b = &nabla_safetensors_records(file)[second];
  uint32_t earlier = a->at < b->at ? a->at : b->at;
  nabla_status status = nabla_fail(
      diag, NABLA_CORRUPT,
      "a second tensor of this name; the first is at byte %" PRIu32, earlier);
  return fail_record(file, a->at < b->at ? b : a, status, diag);
}

/* No holes, no overlap: sorted, each begins where the one before ends. Sets
 * *out_end to the end of the last. */
static nabla_status check_layout(const nabla_safetensors *file,
                                 uint64_t *out_end, nabla_diag *diag) {
  const nabla_safetensors_record *records = nabla_safetensors_records(file);
  size_t count = nabla_safetensors_record_count(file);
  uint64_t end = 0;
  for (size_t i = 0; i < count; i++) {
    const nabla_safetensors_record *now = &records[i];
    const char *before = i > 0 ? nabla_safetensors_name_of(file, now - 1) : "";
    if (now->begin < end) {
      nabla_status status =
          nabla_fail(diag, NABLA_CORRUPT,
                     "data at [%" PRIu64 ", %" PRIu64 ") overlaps [%" PRIu64
                     ", %" PRIu64 ") of tensor '%.100s'",
                     now->begin, now->end, now[-1].begin, now[-1].end, before);
      return fail_record(file, now, status, diag);
    }
    if (now->begin > end) {
      nabla_status status = nabla_fail(
          diag, NABLA_CORRUPT,
          "a hole of %" PRIu64 " bytes before its data, behind %s%.100s%s",
          now->begin - end, i > 0 ? "tensor '" : "the header", before,
          i > 0 ? "'" : "");
      return fail_record(file, now, status, diag);
    }
    end = now->end;
  }
  *out_end = end;
  return NABLA_OK;
}

static nabla_status check_end(const nabla_safetensors *file, uint64_t end,
                              nabla_diag *diag) {
  uint64_t size = nabla_file_size(file->base.file), needed;
  if (!nabla_add_u64(end, file->data_start, &needed)) {
    return nabla_fail(diag, NABLA_TOO_LARGE,
                      "tensors that end at byte %" PRIu64 " overflow", end);
  }
  if (needed == size) return NABLA_OK;
  nabla_status status;
  if (needed > size) {
    status = nabla_fail(diag, NABLA_CORRUPT,
                        "the file is truncated: it has %" PRIu64
                        " bytes, its header describes %" PRIu64,
                        size, needed);
    nabla_diag_set_next(diag, DOWNLOAD_AGAIN ": %" PRIu64 " bytes are missing",
                        needed - size);
    nabla_diag_set_offset(diag, size);
  } else {
    status =
        nabla_fail(diag, NABLA_CORRUPT,
                   "%" PRIu64 " bytes behind the last tensor", size - needed);
    nabla_diag_set_next(diag, DOWNLOAD_AGAIN);
    nabla_diag_set_offset(diag, needed);
  }
  return status;
}

static nabla_status load(nabla_safetensors *file, nabla_diag *diag) {
  uint64_t length = 0, end = 0;
  NABLA_TRY(read_length(file->base.file, &length, diag));
  file->data_start = LENGTH_BYTES + length; /* at most 100,000,008 */
  NABLA_TRY(nabla_safetensors_parse(file, length, diag));
  NABLA_TRY(check_metadata(file, diag));
  NABLA_TRY(nabla_sort(file->base.allocator, file->records.data,
                       nabla_safetensors_record_count(file),
                       sizeof(nabla_safetensors_record), compare_records, NULL,
                       diag));
  NABLA_TRY(index_names(file, diag));
  NABLA_TRY(check_layout(file, &end, diag));
  return check_end(file, end, diag);
}

static void init_buffers(nabla_safetensors *file) {
  const nabla_allocator *allocator = file->base.allocator;
  /* The header's own limit bounds the first two. */
  nabla_buffer_init(&file->records, allocator, "tensors",
                    NABLA_SAFETENSORS_MAX_HEADER);
  nabla_buffer_init(&file->names, allocator, "tensor names",
                    NABLA_SAFETENSORS_MAX_HEADER);
  nabla_buffer_init(&file->shapes, allocator, "shapes",
                    NABLA_SAFETENSORS_MAX_SHAPES);
  nabla_buffer_init(&file->texts, allocator, "__metadata__ texts",
                    NABLA_SAFETENSORS_MAX_METADATA);
  nabla_buffer_init(&file->pairs, allocator, "__metadata__ pairs",
                    2 * NABLA_SAFETENSORS_MAX_METADATA);
}

static nabla_status open_file(nabla_tensor_file *base, nabla_diag *diag) {
  nabla_safetensors *file = (nabla_safetensors *)base;
  init_buffers(file);
  return load(file, diag);
}

static void close_file(nabla_tensor_file *base) {
  nabla_safetensors *file = (nabla_safetensors *)base;
  nabla_name_index_deinit(&file->index);
  nabla_buffer_deinit(&file->records);
  nabla_buffer_deinit(&file->names);
  nabla_buffer_deinit(&file->shapes);
  nabla_buffer_deinit(&file->pairs);
  nabla_buffer_deinit(&file->texts);
}

/* ---- calls of an open file ----------------------------------------------- */

static size_t count(const nabla_tensor_file *base) {
  return nabla_safetensors_record_count((const nabla_safetensors *)base);
}

static nabla_entry at(const nabla_tensor_file *base, size_t index) {
  const nabla_safetensors *file = (const nabla_safetensors *)base;
  const nabla_safetensors_record *record =
      &nabla_safetensors_records(file)[index];
  return (nabla_entry){
      .name = nabla_safetensors_name_of(file, record),
      .name_length = record->name_length,
      .dtype = (nabla_dtype)record->dtype,
      .rank = record->rank,
      .shape = nabla_safetensors_shape_of(file, record),
      .offset = file->data_start + record->begin, /* inside the file */
      .bytes = record->end - record->begin,
      .elements = nabla_safetensors_elements_of(file, record),
  };
}

static size_t find(const nabla_tensor_file *base, const char *name,
                   size_t length) {
  const nabla_safetensors *file = (const nabla_safetensors *)base;
  return nabla_name_index_find(&file->index, (nabla_names){file, tensor_name},
                               name, length);
}

static size_t metadata_count(const nabla_tensor_file *base) {
  const nabla_safetensors *file = (const nabla_safetensors *)base;
  return file->pairs.size / sizeof(nabla_safetensors_pair);
}

static void metadata(const nabla_tensor_file *base, size_t index,
                     const char **out_key, const char **out_value) {
  const nabla_safetensors *file = (const nabla_safetensors *)base;
  const nabla_safetensors_pair *pair = &pairs_of(file)[index];
  *out_key = (const char *)file->texts.data + pair->key;
  *out_value = (const char *)file->texts.data + pair->value;
}

const nabla_tensor_file_calls nabla_safetensors_calls = {
    .size = sizeof(nabla_safetensors),
    .open = open_file,
    .close = close_file,
    .count = count,
    .at = at,
    .find = find,
    .metadata_count = metadata_count,
    .metadata = metadata,
};
