/* Writing a safetensors file: tensors are declared, laid out, and then written
 * in any order. The header goes through one small buffer, whatever its size. */
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "lib/base/bytes.h"
#include "lib/base/checked.h"
#include "lib/base/json/json.h"
#include "lib/base/require.h"
#include "lib/base/sort.h"
#include "lib/base/utf8.h"
#include "quant/formats/safetensors_internal.h"

#define LENGTH_BYTES   8u
#define DATA_ALIGNMENT 64u

enum { SINK_BYTES = 1 << 14 };

typedef struct tensor {
  uint64_t bytes;
  uint64_t begin; /* in the data section; set by begin */
  size_t name, name_length;
  size_t shape; /* where it starts in `shapes`, in dimensions */
  nabla_dtype dtype;
  uint32_t rank;
} tensor;

typedef struct pair {
  size_t key, value; /* where they start in `texts` */
} pair;

struct nabla_safetensors_writer {
  const nabla_allocator *allocator;
  const nabla_os *os;
  nabla_buffer tensors; /* tensor, by id                              */
  nabla_buffer order;   /* size_t ids, in order of the data           */
  nabla_buffer names;   /* each followed by a NUL                     */
  nabla_buffer shapes;  /* uint64_t                                   */
  nabla_buffer pairs;   /* pair, in call order, then sorted by key    */
  nabla_buffer texts;   /* keys and values, each followed by a NUL    */
  nabla_output *output; /* NULL before begin                          */
  uint64_t data_start, data_bytes;
  _Atomic uint64_t written; /* bytes of data                          */
  int committed;
};

/* Where the header's text goes: counted only, or written in pieces. */
typedef struct sink {
  nabla_output *output; /* NULL: only counted */
  uint64_t total;       /* bytes so far       */
  size_t held;
  uint8_t bytes[SINK_BYTES];
} sink;

static tensor *tensors_of(const nabla_safetensors_writer *writer) {
  return (void *)writer->tensors.data;
}

static size_t tensor_count(const nabla_safetensors_writer *writer) {
  return writer->tensors.size / sizeof(tensor);
}

static const char *name_of(const nabla_safetensors_writer *writer,
                           const tensor *t) {
  return (const char *)writer->names.data + t->name;
}

static const char *tensor_name(const void *self, size_t index,
                               size_t *out_length) {
  const nabla_safetensors_writer *writer = self;
  const tensor *t = &tensors_of(writer)[index];
  *out_length = t->name_length;
  return name_of(writer, t);
}

nabla_status nabla_safetensors_writer_create(const nabla_allocator *allocator,
                                             const nabla_os *os,
                                             nabla_safetensors_writer **out,
                                             nabla_diag *diag) {
  NABLA_REQUIRE(out, diag);
  void *block;
  NABLA_TRY(nabla_alloc(allocator, 1, sizeof(nabla_safetensors_writer), &block,
                        diag));
  nabla_safetensors_writer *writer = block;
  const size_t limit = NABLA_SAFETENSORS_MAX_HEADER;
  writer->allocator = allocator;
  writer->os = os;
  nabla_buffer_init(&writer->tensors, allocator, "tensors", 2 * limit);
  nabla_buffer_init(&writer->order, allocator, "tensors", limit);
  nabla_buffer_init(&writer->names, allocator, "tensor names", limit);
  nabla_buffer_init(&writer->shapes, allocator, "shapes",
                    NABLA_SAFETENSORS_MAX_SHAPES);
  nabla_buffer_init(&writer->pairs, allocator, "__metadata__ pairs",
                    2 * NABLA_SAFETENSORS_MAX_METADATA);
  nabla_buffer_init(&writer->texts, allocator, "__metadata__ texts",
                    NABLA_SAFETENSORS_MAX_METADATA);
  *out = writer;
  return NABLA_OK;
}

void nabla_safetensors_writer_destroy(nabla_safetensors_writer *writer) {
  if (!writer) return;
  nabla_output_destroy(writer->output);
  nabla_buffer_deinit(&writer->tensors);
  nabla_buffer_deinit(&writer->order);
  nabla_buffer_deinit(&writer->names);
  nabla_buffer_deinit(&writer->shapes);
  nabla_buffer_deinit(&writer->pairs);
  nabla_buffer_deinit(&writer->texts);
  nabla_free(writer->allocator, writer, 1, sizeof *writer);
}

/* JSON cannot hold other bytes, and a reader in C no U+0000. */
static int is_text(const char *text, size_t length) {
  const uint8_t *bytes = (const uint8_t *)text;
  for (size_t at = 0; at < length;) {
    size_t step = nabla_utf8_length(bytes + at, length - at);
    if (step == 0 || bytes[at] == 0) return 0;
    at += step;
  }
  return 1;
}

static nabla_status check_name(const char *name, size_t length,
                               nabla_diag *diag) {
  static const char reserved[] = NABLA_SAFETENSORS_METADATA_KEY;
  if (length == 0) {
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "a tensor without a name");
  }
  if (length > NABLA_TENSOR_FILE_MAX_NAME) {
    return nabla_fail(diag, NABLA_TOO_LARGE,
                      "a tensor name of %zu bytes; the limit is %u", length,
                      NABLA_TENSOR_FILE_MAX_NAME);
  }
  if (!is_text(name, length)) {
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "a tensor name that is not UTF-8, or holds U+0000");
  }
  if (length == sizeof reserved - 1 && memcmp(name, reserved, length) == 0) {
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "the format reserves the name __metadata__");
  }
  return NABLA_OK;
}

static nabla_status check_open(const nabla_safetensors_writer *writer,
                               nabla_diag *diag) {
  if (!writer->output) return NABLA_OK;
  return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                    "the header is already written");
}

static nabla_status append_text(nabla_buffer *arena, const char *text,
                                size_t length, nabla_diag *diag) {
  size_t before = arena->size;
  NABLA_TRY(nabla_buffer_append(arena, text, length, diag));
  nabla_status status = nabla_buffer_append(arena, "", 1, diag);
  if (status) arena->size = before;
  return status;
}

/* Appends everything of one tensor, or nothing. */
static nabla_status keep_tensor(nabla_safetensors_writer *writer,
                                const tensor *t, const char *name,
                                const uint64_t *shape, nabla_diag *diag) {
  size_t names = writer->names.size, shapes = writer->shapes.size;
  nabla_status status = append_text(&writer->names, name, t->name_length, diag);
  if (!status) {
    status = nabla_buffer_append(&writer->shapes, shape,
                                 t->rank * sizeof *shape, diag);
  }
  if (!status) {
    status = nabla_buffer_append(&writer->tensors, t, sizeof *t, diag);
  }
  if (status) {
    writer->names.size = names;
    writer->shapes.size = shapes;
  }
  return status;
}

nabla_status nabla_safetensors_writer_add(nabla_safetensors_writer *writer,
                                          const char *name, size_t name_length,
                                          nabla_dtype dtype,
                                          const uint64_t *shape, uint32_t rank,
                                          size_t *out_id, nabla_diag *diag) {
  NABLA_REQUIRE(writer, diag);
  if (name_length) NABLA_REQUIRE(name, diag);
  if (rank) NABLA_REQUIRE(shape, diag);
  NABLA_REQUIRE(out_id, diag);
  NABLA_TRY(check_open(writer, diag));
  NABLA_TRY(check_name(name, name_length, diag));
  uint64_t elements;
  tensor t = {.name = writer->names.size,
              .name_length = name_length,
              .shape = writer->shapes.size / sizeof *shape,
              .dtype = dtype,
              .rank = rank};
  nabla_status status;
  if ((unsigned)dtype >= NABLA_DTYPE_COUNT) {
    status = nabla_fail(diag, NABLA_INVALID_ARGUMENT, "there is no dtype %u",
                        (unsigned)dtype);
  } else if (rank > NABLA_TENSOR_FILE_MAX_RANK) {
    status = nabla_fail(diag, NABLA_TOO_LARGE, "%u dimensions; the limit is %u",
                        rank, NABLA_TENSOR_FILE_MAX_RANK);
  } else {
    status =
        nabla_safetensors_size(dtype, shape, rank, &elements, &t.bytes, diag);
    /* what a file may hold and a caller may ask for differ in the blame */
    if (status == NABLA_CORRUPT) {
      status = nabla_fail(diag, NABLA_TOO_LARGE,
                          "a shape that is no whole number of bytes of %s",
                          nabla_dtype_name(dtype));
    }
  }
  if (!status) status = keep_tensor(writer, &t, name, shape, diag);
  if (status) {
    nabla_diag_set_tensor(diag, name, name_length);
    return status;
  }
  *out_id = tensor_count(writer) - 1;
  return NABLA_OK;
}

nabla_status nabla_safetensors_writer_add_metadata(
    nabla_safetensors_writer *writer, const char *key, const char *value,
    nabla_diag *diag) {
  NABLA_REQUIRE(writer, diag);
  NABLA_REQUIRE(key, diag);
  NABLA_REQUIRE(value, diag);
  NABLA_TRY(check_open(writer, diag));
  size_t key_length = strlen(key), value_length = strlen(value);
  if (key_length > NABLA_JSON_MAX_STRING ||
      value_length > NABLA_JSON_MAX_STRING) {
    return nabla_fail(diag, NABLA_TOO_LARGE,
                      "a string of __metadata__ is longer than %d bytes",
                      NABLA_JSON_MAX_STRING);
  }
  if (!is_text(key, key_length) || !is_text(value, value_length)) {
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "a string of __metadata__ is not UTF-8");
  }
  size_t before = writer->texts.size;
  pair p = {.key = before};
  nabla_status status = append_text(&writer->texts, key, key_length, diag);
  p.value = writer->texts.size;
  if (!status) status = append_text(&writer->texts, value, value_length, diag);
  if (!status) status = nabla_buffer_append(&writer->pairs, &p, sizeof p, diag);
  if (status) writer->texts.size = before;
  return status;
}

static int compare_order(const void *a, const void *b, const void *context) {
  const nabla_safetensors_writer *writer = context;
  const tensor *x = &tensors_of(writer)[*(const size_t *)a];
  const tensor *y = &tensors_of(writer)[*(const size_t *)b];
  if (x->dtype != y->dtype) return x->dtype > y->dtype ? -1 : 1;
  return strcmp(name_of(writer, x), name_of(writer, y)); /* no name has NUL */
}

static int compare_pairs(const void *a, const void *b, const void *context) {
  const char *texts = context;
  const pair *x = a, *y = b;
  return strcmp(texts + x->key, texts + y->key);
}

static nabla_status check_names(const nabla_safetensors_writer *writer,
                                nabla_diag *diag) {
  nabla_name_index index;
  size_t first, second;
  NABLA_TRY(nabla_name_index_build(
      &index, writer->allocator, (nabla_names){writer, tensor_name},
      tensor_count(writer), &first, &second, diag));
  nabla_name_index_deinit(&index);
  if (second == SIZE_MAX) return NABLA_OK;
  const tensor *t = &tensors_of(writer)[second];
  nabla_status status =
      nabla_fail(diag, NABLA_INVALID_ARGUMENT, "two tensors have this name");
  nabla_diag_set_tensor(diag, name_of(writer, t), t->name_length);
  return status;
}

/* Sorts, and gives every tensor its place in the data section. */
static nabla_status lay_out(nabla_safetensors_writer *writer,
                            nabla_diag *diag) {
  size_t count = tensor_count(writer);
  writer->order.size = 0; /* an earlier begin may have failed */
  NABLA_TRY(check_names(writer, diag));
  for (size_t id = 0; id < count; id++) {
    NABLA_TRY(nabla_buffer_append(&writer->order, &id, sizeof id, diag));
  }
  size_t *order = (void *)writer->order.data;
  NABLA_TRY(nabla_sort(writer->allocator, order, count, sizeof *order,
                       compare_order, writer, diag));
  NABLA_TRY(nabla_sort(writer->allocator, writer->pairs.data,
                       writer->pairs.size / sizeof(pair), sizeof(pair),
                       compare_pairs, writer->texts.data, diag));
  uint64_t end = 0;
  for (size_t i = 0; i < count; i++) {
    tensor *t = &tensors_of(writer)[order[i]];
    t->begin = end;
    if (!nabla_add_u64(end, t->bytes, &end)) {
      nabla_status status = nabla_fail(diag, NABLA_TOO_LARGE,
                                       "the sizes of all tensors overflow");
      nabla_diag_set_tensor(diag, name_of(writer, t), t->name_length);
      return status;
    }
  }
  writer->data_bytes = end;
  return NABLA_OK;
}

static nabla_status flush(sink *s, nabla_diag *diag) {
  size_t held = s->held;
  s->held = 0;
  if (held == 0) return NABLA_OK;
  return nabla_output_write(s->output, s->total - held, s->bytes, held, diag);
}

static nabla_status sink_write(void *self, const void *data, size_t size,
                               nabla_diag *diag) {
  sink *s = self;
  const uint8_t *from = data;
  if (!s->output) {
    s->total += size; /* of texts in memory: far below 2^64 */
    return NABLA_OK;
  }
  while (size > 0) {
    size_t room = SINK_BYTES - s->held;
    size_t part = size < room ? size : room;
    memcpy(s->bytes + s->held, from, part);
    s->held += part;
    s->total += part;
    from += part;
    size -= part;
    if (s->held == SINK_BYTES) NABLA_TRY(flush(s, diag));
  }
  return NABLA_OK;
}

static void put_metadata(const nabla_safetensors_writer *writer,
                         nabla_json_out *out) {
  const pair *pairs = (const void *)writer->pairs.data;
  const char *texts = (const char *)writer->texts.data;
  size_t count = writer->pairs.size / sizeof *pairs;
  if (count == 0) return;
  nabla_json_out_key(out, NABLA_SAFETENSORS_METADATA_KEY);
  nabla_json_out_object(out);
  for (size_t i = 0; i < count; i++) {
    const char *key = texts + pairs[i].key;
    /* The sort is stable: of equal keys the last was added last. */
    if (i + 1 < count && strcmp(key, texts + pairs[i + 1].key) == 0) continue;
    nabla_json_out_key(out, key);
    nabla_json_out_string(out, texts + pairs[i].value);
  }
  nabla_json_out_object_end(out);
}

static void put_tensor(const nabla_safetensors_writer *writer, const tensor *t,
                       nabla_json_out *out) {
  const uint64_t *shapes = (const void *)writer->shapes.data;
  nabla_json_out_key_n(out, name_of(writer, t), t->name_length);
  nabla_json_out_object(out);
  nabla_json_out_key(out, "dtype");
  nabla_json_out_string(out, nabla_dtype_name(t->dtype));
  nabla_json_out_key(out, "shape");
  nabla_json_out_array(out);
  for (uint32_t i = 0; i < t->rank; i++) {
    nabla_json_out_u64(out, shapes[t->shape + i]);
  }
  nabla_json_out_array_end(out);
  nabla_json_out_key(out, "data_offsets");
  nabla_json_out_array(out);
  nabla_json_out_u64(out, t->begin);
  nabla_json_out_u64(out, t->begin + t->bytes); /* lay_out has checked it */
  nabla_json_out_array_end(out);
  nabla_json_out_object_end(out);
}

/* Sends the header's JSON, without padding, to the sink. */
static nabla_status put_header(const nabla_safetensors_writer *writer, sink *s,
                               nabla_diag *diag) {
  const size_t *order = (const void *)writer->order.data;
  size_t count = tensor_count(writer);
  nabla_json_out out = {.self = s, .write = sink_write, .diag = diag};
  nabla_json_out_object(&out);
  put_metadata(writer, &out);
  for (size_t i = 0; i < count; i++) {
    put_tensor(writer, &tensors_of(writer)[order[i]], &out);
  }
  nabla_json_out_object_end(&out);
  return nabla_json_out_finish(&out);
}

/* Counts the header and fixes where data starts. */
static nabla_status measure(nabla_safetensors_writer *writer,
                            nabla_diag *diag) {
  sink s = {.total = LENGTH_BYTES};
  uint64_t start, size;
  NABLA_TRY(put_header(writer, &s, diag));
  if (!nabla_align_u64(s.total, DATA_ALIGNMENT, &start) ||
      start - LENGTH_BYTES > NABLA_SAFETENSORS_MAX_HEADER) {
    return nabla_fail(diag, NABLA_TOO_LARGE,
                      "a header of %" PRIu64 " bytes; the format's limit is %u",
                      s.total - LENGTH_BYTES, NABLA_SAFETENSORS_MAX_HEADER);
  }
  /* files end below 2^63 (off_t) */
  if (!nabla_add_u64(start, writer->data_bytes, &size) || size > INT64_MAX) {
    return nabla_fail(diag, NABLA_TOO_LARGE,
                      "tensors of %" PRIu64 " bytes are more than a file holds",
                      writer->data_bytes);
  }
  writer->data_start = start;
  return NABLA_OK;
}

static nabla_status write_header(const nabla_safetensors_writer *writer,
                                 nabla_output *output, nabla_diag *diag) {
  sink s = {.output = output};
  uint8_t length[LENGTH_BYTES], spaces[DATA_ALIGNMENT];
  nabla_store_le64(length, writer->data_start - LENGTH_BYTES);
  memset(spaces, ' ', sizeof spaces);
  NABLA_TRY(sink_write(&s, length, sizeof length, diag));
  NABLA_TRY(put_header(writer, &s, diag));
  NABLA_TRY(
      sink_write(&s, spaces, (size_t)(writer->data_start - s.total), diag));
  return flush(&s, diag);
}

nabla_status nabla_safetensors_writer_begin(nabla_safetensors_writer *writer,
                                            const char *path, int force,
                                            nabla_diag *diag) {
  NABLA_REQUIRE(writer, diag);
  NABLA_REQUIRE(path, diag);
  const nabla_output_options options = {
      .os = writer->os, .allocator = writer->allocator, .force = force};
  return nabla_safetensors_writer_begin_as(writer, path, &options, diag);
}

nabla_status nabla_safetensors_writer_begin_as(
    nabla_safetensors_writer *writer, const char *path,
    const nabla_output_options *wanted, nabla_diag *diag) {
  NABLA_TRY(check_open(writer, diag));
  nabla_output_options options = *wanted;
  nabla_output *output;
  nabla_status status = lay_out(writer, diag);
  if (!status) status = measure(writer, diag);
  if (!status) options.expected = nabla_safetensors_writer_file_size(writer);
  if (!status) status = nabla_output_create(path, &options, &output, diag);
  if (!status) {
    status = write_header(writer, output, diag);
    if (!status) {
      writer->output = output;
      return NABLA_OK;
    }
    nabla_output_destroy(output);
  }
  nabla_diag_set_file(diag, path);
  return status;
}

size_t nabla_safetensors_writer_find(const nabla_safetensors_writer *writer,
                                     nabla_dtype dtype, const char *name,
                                     uint64_t *out_bytes) {
  const size_t *order = (const void *)writer->order.data;
  size_t first = 0, end = tensor_count(writer);
  while (first < end) { /* as compare_order */
    const size_t middle = first + (end - first) / 2;
    const tensor *t = &tensors_of(writer)[order[middle]];
    const int by_name = strcmp(name, name_of(writer, t));
    if (t->dtype == dtype && !by_name) {
      *out_bytes = t->bytes;
      return order[middle];
    }
    if (t->dtype == dtype ? by_name < 0 : dtype > t->dtype)
      end = middle;
    else
      first = middle + 1;
  }
  return SIZE_MAX;
}

size_t nabla_safetensors_writer_count(const nabla_safetensors_writer *writer) {
  return tensor_count(writer);
}

uint64_t nabla_safetensors_writer_file_size(
    const nabla_safetensors_writer *writer) {
  return writer->data_start + writer->data_bytes; /* measure has checked it */
}

nabla_status nabla_safetensors_writer_write(nabla_safetensors_writer *writer,
                                            size_t id, uint64_t at,
                                            const void *data, size_t size,
                                            nabla_diag *diag) {
  NABLA_REQUIRE(writer, diag);
  if (size) NABLA_REQUIRE(data, diag);
  if (!writer->output) {
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "writing before the header is written");
  }
  if (id >= tensor_count(writer)) {
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "there is no tensor %zu",
                      id);
  }
  const tensor *t = &tensors_of(writer)[id];
  nabla_status status;
  if (at > t->bytes || size > t->bytes - at) {
    status = nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "%zu bytes at %" PRIu64 " lie outside its %" PRIu64,
                        size, at, t->bytes);
  } else {
    status = nabla_output_write(
        writer->output, writer->data_start + t->begin + at, data, size, diag);
  }
  if (status) {
    nabla_diag_set_tensor(diag, name_of(writer, t), t->name_length);
    return status;
  }
  atomic_fetch_add_explicit(&writer->written, size, memory_order_relaxed);
  return NABLA_OK;
}

nabla_status nabla_safetensors_writer_commit(nabla_safetensors_writer *writer,
                                             nabla_diag *diag) {
  NABLA_REQUIRE(writer, diag);
  if (!writer->output || writer->committed) {
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      writer->committed ? "the file is already committed"
                                        : "the file was never begun");
  }
  uint64_t written = atomic_load(&writer->written);
  if (written != writer->data_bytes) {
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "%" PRIu64 " of %" PRIu64 " bytes were written", written,
                      writer->data_bytes);
  }
  writer->committed = 1; /* nabla_output_commit is called once */
  return nabla_output_commit(writer->output, diag);
}
