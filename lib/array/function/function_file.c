/* Reading the container of a saved function; see function_file.h. */
#include "lib/array/function/function_file.h"

#include <inttypes.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "lib/array/function/function_file_hash.h"
#include "lib/base/bytes.h"
#include "lib/base/checked.h"

/* A body that is being read. The first failure stays in `status`. */
typedef struct reader {
  uint32_t version;
  nabla_cursor cursor; /* over the whole file */
  const nabla_allocator *allocator;
  nabla_status status;
  nabla_diag *diag;
} reader;

/* Says what is wrong with the bytes before the cursor. */
static void refuse(reader *r, size_t offset, const char *what) {
  if (r->status) return;
  r->status = nabla_fail(r->diag, NABLA_CORRUPT, "a saved function: %s", what);
  nabla_diag_set_offset(r->diag, offset);
}

static uint32_t read_u32(reader *r) {
  uint32_t out = 0;
  if (!r->status && !nabla_cursor_take_u32(&r->cursor, &out))
    refuse(r, r->cursor.at, "it ends within a number");
  return out;
}

static uint64_t read_u64(reader *r) {
  uint64_t out = 0;
  if (!r->status && !nabla_cursor_take_u64(&r->cursor, &out))
    refuse(r, r->cursor.at, "it ends within a number");
  return out;
}

/* A number that is at most `most`. */
static uint32_t read_up_to(reader *r, uint32_t most, const char *what) {
  const size_t at = r->cursor.at;
  const uint32_t out = read_u32(r);
  if (out <= most) return out;
  refuse(r, at, what);
  return 0;
}

static const char *read_text(reader *r) {
  const uint8_t *bytes = NULL;
  const size_t at = r->cursor.at;
  const uint32_t size = read_up_to(r, NABLA_FUNCTION_FILE_MAX_TEXT,
                                   "a text is longer than 65536 bytes");
  if (r->status) return "";
  if (!nabla_cursor_take(&r->cursor, (size_t)size + 1, &bytes))
    refuse(r, at, "it ends within a text");
  else if (memchr(bytes, 0, (size_t)size + 1) != bytes + size)
    refuse(r, at, "a text does not end where its length says");
  return r->status ? "" : (const char *)bytes;
}

static nabla_file_bytes read_bytes(reader *r) {
  nabla_file_bytes out = {NULL, 0};
  const size_t at = r->cursor.at;
  const uint64_t size = read_u64(r);
  if (r->status) return out;
  if (size > nabla_cursor_left(&r->cursor) ||
      !nabla_cursor_take(&r->cursor, (size_t)size, &out.data))
    refuse(r, at, "bytes go on behind its end");
  else
    out.size = size;
  return out;
}

/* A count of entries of at least `least` bytes in the file, and memory for
 * them. */
static uint32_t read_list(reader *r, size_t least, size_t size, void **out) {
  const size_t at = r->cursor.at;
  const uint32_t count = read_up_to(r, NABLA_FUNCTION_FILE_MAX_LIST,
                                    "a list has more than 1048576 entries");
  if (!r->status && count > nabla_cursor_left(&r->cursor) / least)
    refuse(r, at, "a list has more entries than the file has bytes for");
  if (r->status) return 0;
  r->status = nabla_alloc(r->allocator, count, size, out, r->diag);
  return r->status ? 0 : count;
}

/* ---- arrays ---- */

static uint32_t read_dtype(reader *r) {
  return read_up_to(r, NABLA_DTYPE_COUNT - 1, "a dtype that is none");
}

static void read_packed(reader *r, nabla_file_packed *out) {
  out->encoding = read_text(r);
  out->kind = read_up_to(r, NABLA_STORAGE_COUNT - 1, "a storage that is none");
  out->granularity =
      read_up_to(r, NABLA_PER_TENSOR, "a granularity that is none");
  out->scale = read_up_to(r, NABLA_SCALE_E8M0, "a type of scales that is none");
  out->zero_point = read_up_to(r, 1, "a flag above 1");
  out->nested_block = read_u32(r);
  out->block = read_u64(r);
  out->segment = read_u64(r);
  out->dtype = read_dtype(r);
  out->rank = read_up_to(r, NABLA_ARRAY_MAX_RANK, "a rank above 16");
  for (uint32_t d = 0; d < out->rank; d++) out->shape[d] = read_u64(r);
  out->component_count = read_up_to(r, NABLA_WEIGHT_MAX_COMPONENTS,
                                    "more than 6 components of an array");
  for (uint32_t i = 0; i < out->component_count; i++)
    out->components[i] = read_bytes(r);
}

static void read_dense(reader *r, nabla_dense *out) {
  out->dtype = (nabla_dtype)read_dtype(r);
  out->rank = read_up_to(r, NABLA_ARRAY_MAX_RANK, "a rank above 16");
  uint64_t bytes = nabla_dtype_bits(out->dtype) / 8;
  const size_t at = r->cursor.at;
  for (uint32_t d = 0; d < out->rank; d++) {
    const uint64_t size = read_u64(r);
    if (size > INT64_MAX || !nabla_mul_u64(bytes, size, &bytes))
      refuse(r, at, "the size of an array is beyond 63 bits");
    out->shape[d] = (int64_t)size;
  }
  const nabla_file_bytes data = read_bytes(r);
  if (data.size != bytes)
    refuse(r, at, "an array does not have the bytes of its shape");
  out->data = (void *)data.data;
}

static void read_capture(reader *r, nabla_file_capture *out) {
  nabla_cursor ahead = r->cursor;
  uint32_t dtype = 0;
  if (r->version < 2 || !nabla_cursor_take_u32(&ahead, &dtype) ||
      dtype != NABLA_FUNCTION_FILE_PACKED) {
    read_dense(r, &out->dense);
    return;
  }
  r->cursor = ahead;
  read_packed(r, &out->packed);
}

static void read_result(reader *r, uint32_t arguments, nabla_file_result *out) {
  out->dtype = read_dtype(r);
  out->packed = read_text(r);
  out->rank = read_up_to(r, NABLA_ARRAY_MAX_RANK, "a rank above 16");
  size_t at = r->cursor.at;
  for (uint32_t d = 0; d < out->rank; d++) {
    out->shape[d] = (int64_t)read_u64(r);
    out->leaf[d] = read_u32(r);
    out->dim[d] = read_up_to(r, NABLA_ARRAY_MAX_RANK - 1,
                             "a dimension of an argument above 15");
    if (out->leaf[d] >= arguments && out->leaf[d] != UINT32_MAX)
      refuse(r, at, "a size of a result comes from no argument");
  }
  at = r->cursor.at;
  out->donor = read_u32(r);
  if (out->donor >= arguments && out->donor != UINT32_MAX)
    refuse(r, at, "a result takes the memory of no argument");
  out->is_open = read_up_to(r, 1, "a flag above 1");
}

/* ---- the body ---- */

static void read_signature(reader *r, nabla_file_signature *out) {
  void *memory = NULL;
  out->text = read_text(r);
  out->key = read_bytes(r);
  out->bytecode = read_bytes(r);
  out->policy = read_up_to(r, 3, "a policy above 3");
  out->argument_count = read_up_to(r, NABLA_FUNCTION_FILE_MAX_LIST,
                                   "more than 1048576 arguments");
  out->capture_count = read_list(r, 16, sizeof *out->captures, &memory);
  out->captures = memory;
  for (uint32_t i = 0; i < out->capture_count && !r->status; i++)
    read_capture(r, &out->captures[i]);
  memory = NULL;
  out->result_count = read_list(r, 21, sizeof *out->results, &memory);
  out->results = memory;
  for (uint32_t i = 0; i < out->result_count && !r->status; i++)
    read_result(r, out->argument_count, &out->results[i]);
}

static uint32_t read_replacements(reader *r, nabla_function_replacement **out) {
  void *memory = NULL;
  const uint32_t count = read_list(r, 10, sizeof **out, &memory);
  *out = memory;
  for (uint32_t i = 0; i < count && !r->status; i++) {
    (*out)[i].argument = read_text(r);
    (*out)[i].result = read_text(r);
  }
  return count;
}

static void read_body(reader *r, nabla_function_file *file) {
  void *memory = NULL;
  file->name = read_text(r);
  file->operation_count = read_list(r, 5, sizeof *file->operations, &memory);
  file->operations = memory;
  for (uint32_t i = 0; i < file->operation_count; i++)
    file->operations[i] = read_text(r);
  memory = NULL;
  file->dim_count = read_list(r, 14, sizeof *file->dims, &memory);
  file->dims = memory;
  for (uint32_t i = 0; i < file->dim_count; i++) {
    file->dims[i].argument = read_text(r);
    file->dims[i].dim = read_u32(r);
    file->dims[i].name = read_text(r);
  }
  file->state_count = read_replacements(r, &file->states);
  file->donated_count = read_replacements(r, &file->donated);
  if (r->version >= 3) file->note = read_bytes(r);
  memory = NULL;
  file->signature_count = read_list(r, 41, sizeof *file->signatures, &memory);
  file->signatures = memory;
  for (uint32_t i = 0; i < file->signature_count && !r->status; i++)
    read_signature(r, &file->signatures[i]);
  if (!r->status && nabla_cursor_left(&r->cursor))
    refuse(r, r->cursor.at, "bytes follow its last signature");
}

static void check_header(reader *r) {
  const uint8_t *data = r->cursor.data;
  const size_t size = r->cursor.size;
  uint8_t hash[NABLA_FUNCTION_FILE_HASH];
  if (size >= NABLA_FUNCTION_FILE_HEADER)
    r->version = nabla_load_le32(data + 8);
  if (size < 8 || memcmp(data, NABLA_FUNCTION_FILE_MAGIC, 8) != 0) {
    refuse(r, 0, "the file does not begin with \"NablaFun\"");
  } else if (size < NABLA_FUNCTION_FILE_HEADER) {
    refuse(r, size, "it ends within its header");
  } else if (r->version < 1 || r->version > NABLA_FUNCTION_FILE_VERSION) {
    r->status = nabla_fail(r->diag, NABLA_UNSUPPORTED,
                           "a saved function of version %" PRIu32
                           "; this library reads versions 1 to %d",
                           r->version, NABLA_FUNCTION_FILE_VERSION);
    nabla_diag_set_offset(r->diag, 8);
  } else if (nabla_load_le32(data + 12)) {
    refuse(r, 12, "4 bytes of its header are not 0");
  } else if (nabla_load_le64(data + 16) != size - NABLA_FUNCTION_FILE_HEADER) {
    refuse(r, 16, "its size is not that of the file");
  } else {
    nabla_function_file_hash(data, size, hash);
    if (memcmp(hash, data + 24, sizeof hash) != 0)
      refuse(r, 24, "its bytes do not have its hash: it was damaged");
  }
}

nabla_status nabla_function_file_read(nabla_function_file *file,
                                      const nabla_allocator *allocator,
                                      const uint8_t *data, size_t size,
                                      nabla_diag *diag) {
  reader r = {.cursor = {data, size, 0}, .allocator = allocator, .diag = diag};
  *file = (nabla_function_file){.allocator = allocator};
  check_header(&r);
  if (r.status) return r.status;
  file->version = r.version;
  r.cursor.at = NABLA_FUNCTION_FILE_HEADER;
  read_body(&r, file);
  return r.status;
}

void nabla_function_file_deinit(nabla_function_file *file) {
  const nabla_allocator *allocator = file->allocator;
  for (uint32_t i = 0; i < file->signature_count; i++) {
    const nabla_file_signature *s = &file->signatures[i];
    nabla_free(allocator, s->captures, s->capture_count, sizeof *s->captures);
    nabla_free(allocator, s->results, s->result_count, sizeof *s->results);
  }
  nabla_free(allocator, file->signatures, file->signature_count,
             sizeof *file->signatures);
  nabla_free(allocator, file->operations, file->operation_count,
             sizeof *file->operations);
  nabla_free(allocator, file->dims, file->dim_count, sizeof *file->dims);
  nabla_free(allocator, file->states, file->state_count, sizeof *file->states);
  nabla_free(allocator, file->donated, file->donated_count,
             sizeof *file->donated);
  *file = (nabla_function_file){.name = NULL};
}
