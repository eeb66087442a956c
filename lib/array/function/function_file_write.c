/* Writing the container of a saved function; see function_file.h. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "lib/array/function/function_file.h"
#include "lib/array/function/function_file_hash.h"
#include "lib/base/bytes.h"

/* A file that is being written. The first failure stays in `status`. */
typedef struct writer {
  nabla_buffer *out;
  nabla_status status;
  nabla_diag *diag;
} writer;

static void put(writer *w, const void *data, size_t size) {
  if (!w->status && size)
    w->status = nabla_buffer_append(w->out, data, size, w->diag);
}

static void put_u32(writer *w, uint32_t value) {
  uint8_t bytes[4];
  nabla_store_le32(bytes, value);
  put(w, bytes, sizeof bytes);
}

static void put_u64(writer *w, uint64_t value) {
  uint8_t bytes[8];
  nabla_store_le64(bytes, value);
  put(w, bytes, sizeof bytes);
}

static void put_count(writer *w, uint32_t count) {
  if (!w->status && count > NABLA_FUNCTION_FILE_MAX_LIST)
    w->status = nabla_fail(w->diag, NABLA_TOO_LARGE,
                           "a list of %u entries; saved functions have at most "
                           "%u",
                           count, NABLA_FUNCTION_FILE_MAX_LIST);
  put_u32(w, count);
}

static void put_text(writer *w, const char *text) {
  const size_t size = strlen(text);
  if (!w->status && size > NABLA_FUNCTION_FILE_MAX_TEXT)
    w->status = nabla_fail(w->diag, NABLA_TOO_LARGE,
                           "a text of %zu bytes; saved functions have at most "
                           "%u: %.40s...",
                           size, NABLA_FUNCTION_FILE_MAX_TEXT, text);
  put_u32(w, (uint32_t)size);
  put(w, text, size + 1);
}

static void put_bytes(writer *w, nabla_file_bytes bytes) {
  put_u64(w, bytes.size);
  put(w, bytes.data, (size_t)bytes.size);
}

static void put_packed(writer *w, const nabla_file_packed *packed) {
  put_u32(w, NABLA_FUNCTION_FILE_PACKED);
  put_text(w, packed->encoding);
  put_u32(w, packed->kind);
  put_u32(w, packed->granularity);
  put_u32(w, packed->scale);
  put_u32(w, packed->zero_point);
  put_u32(w, packed->nested_block);
  put_u64(w, packed->block);
  put_u64(w, packed->segment);
  put_u32(w, packed->dtype);
  put_u32(w, packed->rank);
  for (uint32_t d = 0; d < packed->rank; d++) put_u64(w, packed->shape[d]);
  put_u32(w, packed->component_count);
  for (uint32_t i = 0; i < packed->component_count; i++)
    put_bytes(w, packed->components[i]);
}

static void put_dense(writer *w, const nabla_dense *dense) {
  uint64_t bytes = nabla_dtype_bits(dense->dtype) / 8;
  put_u32(w, (uint32_t)dense->dtype);
  put_u32(w, dense->rank);
  for (uint32_t d = 0; d < dense->rank; d++) {
    put_u64(w, (uint64_t)dense->shape[d]);
    bytes *= (uint64_t)dense->shape[d];
  }
  put_bytes(w, (nabla_file_bytes){dense->data, bytes});
}

static void put_capture(writer *w, const nabla_file_capture *capture) {
  if (capture->packed.encoding)
    put_packed(w, &capture->packed);
  else
    put_dense(w, &capture->dense);
}

static void put_result(writer *w, const nabla_file_result *result) {
  put_u32(w, result->dtype);
  put_text(w, result->packed);
  put_u32(w, result->rank);
  for (uint32_t d = 0; d < result->rank; d++) {
    put_u64(w, (uint64_t)result->shape[d]);
    put_u32(w, result->leaf[d]);
    put_u32(w, result->dim[d]);
  }
  put_u32(w, result->donor);
  put_u32(w, result->is_open);
}

static void put_signature(writer *w, const nabla_file_signature *signature) {
  put_text(w, signature->text);
  put_bytes(w, signature->key);
  put_bytes(w, signature->bytecode);
  put_u32(w, signature->policy);
  put_u32(w, signature->argument_count);
  put_count(w, signature->capture_count);
  for (uint32_t i = 0; i < signature->capture_count; i++)
    put_capture(w, &signature->captures[i]);
  put_count(w, signature->result_count);
  for (uint32_t i = 0; i < signature->result_count; i++)
    put_result(w, &signature->results[i]);
}

static void put_replacements(writer *w, uint32_t count,
                             const nabla_function_replacement *list) {
  put_count(w, count);
  for (uint32_t i = 0; i < count; i++) {
    put_text(w, list[i].argument);
    put_text(w, list[i].result);
  }
}

static void put_body(writer *w, const nabla_function_file *file) {
  put_text(w, file->name);
  put_count(w, file->operation_count);
  for (uint32_t i = 0; i < file->operation_count; i++)
    put_text(w, file->operations[i]);
  put_count(w, file->dim_count);
  for (uint32_t i = 0; i < file->dim_count; i++) {
    put_text(w, file->dims[i].argument);
    put_u32(w, file->dims[i].dim);
    put_text(w, file->dims[i].name);
  }
  put_replacements(w, file->state_count, file->states);
  put_replacements(w, file->donated_count, file->donated);
  if (file->version >= 3) put_bytes(w, file->note);
  put_count(w, file->signature_count);
  for (uint32_t i = 0; i < file->signature_count; i++)
    put_signature(w, &file->signatures[i]);
}

nabla_status nabla_function_file_write(const nabla_function_file *file,
                                       nabla_buffer *out, nabla_diag *diag) {
  uint8_t header[NABLA_FUNCTION_FILE_HEADER] = NABLA_FUNCTION_FILE_MAGIC;
  writer w = {.out = out, .diag = diag};
  nabla_store_le32(header + 8, file->version);
  put(&w, header, sizeof header);
  put_body(&w, file);
  if (w.status) return w.status;
  nabla_store_le64(out->data + 16, out->size - sizeof header);
  nabla_function_file_hash(out->data, out->size, out->data + 24);
  return NABLA_OK;
}
