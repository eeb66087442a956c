/* Reads and writes .npy files. The header is the text of a Python dictionary:
 * only what numpy.save can write there is accepted. */
#include "tools/nabla-run/npy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/bytes.h"
#include "lib/base/checked.h"
#include "lib/base/file/file.h"
#include "lib/base/memory.h"
#include "tools/common/stream.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "arrays are read and written as they lie in memory: little-endian"
#endif

#define MAGIC      "\x93NUMPY"
#define MAGIC_SIZE 6
#define PREFIX     8  /* magic and version                          */
#define ALIGNMENT  64 /* NumPy starts the data at a multiple of it  */

/* Digits that NumPy leaves room for: its GROWTH_AXIS_MAX_DIGITS, since 1.24. */
#define GROWTH_DIGITS 21

/* Bytes of the whole header that a rank of 16 may take. */
#define HEADER_ROOM 1024

/* NumPy's name of each dtype, without the byte order. */
static const struct {
  const char *code;
  nabla_dtype dtype;
} codes[] = {
    {"b1", NABLA_DTYPE_BOOL}, {"i1", NABLA_DTYPE_I8},  {"u1", NABLA_DTYPE_U8},
    {"i2", NABLA_DTYPE_I16},  {"u2", NABLA_DTYPE_U16}, {"i4", NABLA_DTYPE_I32},
    {"u4", NABLA_DTYPE_U32},  {"i8", NABLA_DTYPE_I64}, {"u8", NABLA_DTYPE_U64},
    {"f2", NABLA_DTYPE_F16},  {"f4", NABLA_DTYPE_F32}, {"f8", NABLA_DTYPE_F64},
};

/* ---- the header's text -------------------------------------------------- */

enum { KEY_DESCR = 1, KEY_ORDER = 2, KEY_SHAPE = 4, KEYS = 7 };

typedef struct header {
  nabla_cursor text;
  uint64_t origin; /* offset of the text in the file */
  nabla_dtype dtype;
  int fortran;
  uint32_t rank;
  uint64_t shape[NABLA_ARRAY_MAX_RANK];
  nabla_diag *diag;
} header;

/* The byte at the cursor; -1 at the end. */
static int peek(const header *h) {
  return h->text.at < h->text.size ? h->text.data[h->text.at] : -1;
}

static void skip_space(header *h) {
  while (peek(h) == ' ' || peek(h) == '\t' || peek(h) == '\n') h->text.at++;
}

static nabla_status at_here(const header *h, nabla_status status) {
  nabla_diag_set_offset(h->diag, h->origin + h->text.at);
  return status;
}

static nabla_status expected(const header *h, const char *what) {
  return at_here(h, nabla_fail(h->diag, NABLA_CORRUPT,
                               "the header is not what NumPy writes: expected "
                               "%s",
                               what));
}

/* Passes `byte` after white space, if it is there. */
static int accept(header *h, char byte) {
  skip_space(h);
  if (peek(h) != byte) return 0;
  h->text.at++;
  return 1;
}

/* Passes a word, if it is there. */
static int accept_word(header *h, const char *word) {
  const size_t size = strlen(word);
  skip_space(h);
  if (nabla_cursor_left(&h->text) < size ||
      memcmp(h->text.data + h->text.at, word, size) != 0)
    return 0;
  h->text.at += size;
  return 1;
}

/* Reads a quoted text of less than `room` bytes, without escapes. */
static nabla_status take_text(header *h, const char *what, char *out,
                              size_t room) {
  skip_space(h);
  const int quote = peek(h);
  if (quote != '\'' && quote != '"') return expected(h, what);
  h->text.at++;
  size_t size = 0;
  while (peek(h) != quote) {
    if (peek(h) < ' ' || peek(h) == '\\' || size + 1 >= room)
      return expected(h, what);
    out[size++] = (char)h->text.data[h->text.at++];
  }
  h->text.at++;
  out[size] = 0;
  return NABLA_OK;
}

static nabla_status refuse_type(const header *h, const char *what,
                                const char *next) {
  const nabla_status status =
      nabla_fail(h->diag, NABLA_UNSUPPORTED, "%s cannot be read", what);
  nabla_diag_set_next(h->diag, "%s", next);
  return status;
}

static nabla_status take_descr(header *h) {
  char text[16];
  skip_space(h);
  if (peek(h) == '[')
    return refuse_type(h, "an array of structures",
                       "save one field: numpy.save(path, a['field'])");
  NABLA_TRY(take_text(h, "a type such as '<f4'", text, sizeof text));
  if (text[0] == '>' && text[1] && text[2] != '1')
    return refuse_type(h, "a big-endian array",
                       "save a.astype(a.dtype.newbyteorder('<'))");
  if (text[0] == '<' || text[0] == '|' || text[0] == '>')
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
      if (!strcmp(text + 1, codes[i].code) &&
          (text[0] == '<' || text[2] == '1')) {
        h->dtype = codes[i].dtype;
        return NABLA_OK;
      }
  const nabla_status status = nabla_fail(h->diag, NABLA_UNSUPPORTED,
                                         "the type '%s' cannot be read", text);
  nabla_diag_set_next(h->diag, "save a.astype('float32')");
  return status;
}

static nabla_status take_order(header *h) {
  if (accept_word(h, "True"))
    h->fortran = 1;
  else if (!accept_word(h, "False"))
    return expected(h, "True or False");
  return NABLA_OK;
}

static nabla_status take_dimension(header *h, uint64_t *out) {
  uint64_t value = 0;
  skip_space(h);
  if (peek(h) < '0' || peek(h) > '9') return expected(h, "a dimension");
  for (; peek(h) >= '0' && peek(h) <= '9'; h->text.at++)
    if (!nabla_mul_u64(value, 10, &value) ||
        !nabla_add_u64(value, (uint64_t)(peek(h) - '0'), &value) ||
        value > INT64_MAX)
      return at_here(h, nabla_fail(h->diag, NABLA_TOO_LARGE,
                                   "a dimension is beyond 2^63 - 1"));
  if (peek(h) == 'L') h->text.at++; /* a long of Python 2 */
  *out = value;
  return NABLA_OK;
}

/* A tuple: "()", "(3,)", "(3, 4)". */
static nabla_status take_shape(header *h) {
  if (!accept(h, '(')) return expected(h, "a shape such as (3, 4)");
  int comma = 1;
  while (!accept(h, ')')) {
    if (!comma) return expected(h, "',' or ')'");
    if (h->rank == NABLA_ARRAY_MAX_RANK)
      return at_here(
          h, nabla_fail(h->diag, NABLA_TOO_LARGE, "more than %d dimensions",
                        NABLA_ARRAY_MAX_RANK));
    NABLA_TRY(take_dimension(h, &h->shape[h->rank]));
    h->rank++;
    comma = accept(h, ',');
  }
  if (h->rank == 1 && !comma) return expected(h, "',' after one dimension");
  return NABLA_OK;
}

static nabla_status take_item(header *h, uint32_t *seen) {
  char key[16];
  NABLA_TRY(take_text(h, "a key", key, sizeof key));
  const uint32_t which = !strcmp(key, "descr")           ? KEY_DESCR
                         : !strcmp(key, "fortran_order") ? KEY_ORDER
                         : !strcmp(key, "shape")         ? KEY_SHAPE
                                                         : 0;
  if (!which || (*seen & which))
    return at_here(
        h, nabla_fail(h->diag, NABLA_CORRUPT, "%s key '%s' in the header",
                      which ? "repeated" : "unknown", key));
  *seen |= which;
  if (!accept(h, ':')) return expected(h, "':'");
  if (which == KEY_DESCR) return take_descr(h);
  return which == KEY_ORDER ? take_order(h) : take_shape(h);
}

static nabla_status take_header(header *h) {
  uint32_t seen = 0;
  int comma = 1;
  if (!accept(h, '{')) return expected(h, "'{'");
  while (!accept(h, '}')) {
    if (!comma) return expected(h, "',' or '}'");
    NABLA_TRY(take_item(h, &seen));
    comma = accept(h, ',');
  }
  skip_space(h);
  if (nabla_cursor_left(&h->text)) return expected(h, "the end");
  if (seen != KEYS)
    return nabla_fail(h->diag, NABLA_CORRUPT,
                      "the header lacks descr, fortran_order or shape");
  if (!h->fortran || h->rank < 2) return NABLA_OK;
  return refuse_type(h, "an array in Fortran order",
                     "save numpy.ascontiguousarray(a)");
}

/* ---- reading ------------------------------------------------------------ */

/* Reads magic, version and length; sets where the text is. */
static nabla_status read_prefix(const nabla_file *file, uint64_t *out_at,
                                uint32_t *out_size, nabla_diag *diag) {
  uint8_t start[PREFIX + 4] = {0};
  const uint64_t size = nabla_file_size(file);
  const size_t got = size < sizeof start ? (size_t)size : sizeof start;
  NABLA_TRY(nabla_file_read(file, 0, start, got, diag));
  if (memcmp(start, MAGIC, MAGIC_SIZE) != 0) {
    const nabla_status status =
        nabla_fail(diag, NABLA_CORRUPT, "this is no npy file");
    nabla_diag_set_next(diag, "write one with numpy.save(path, array)");
    return status;
  }
  if (got < PREFIX + 2)
    return nabla_fail(diag, NABLA_CORRUPT, "the file ends in its header");
  const uint8_t major = start[MAGIC_SIZE], minor = start[MAGIC_SIZE + 1];
  if (major < 1 || major > 3 || minor != 0)
    return nabla_fail(diag, NABLA_UNSUPPORTED,
                      "version %u.%u of the npy format is unknown", major,
                      minor);
  *out_at = major == 1 ? PREFIX + 2 : PREFIX + 4;
  *out_size = major == 1 ? nabla_load_le16(start + PREFIX)
                         : nabla_load_le32(start + PREFIX);
  if (*out_size > NPY_MAX_HEADER)
    return nabla_fail(diag, NABLA_TOO_LARGE,
                      "a header of %" PRIu32 " bytes; at most %u are read",
                      *out_size, NPY_MAX_HEADER);
  if (size < *out_at || size - *out_at < *out_size)
    return nabla_fail(diag, NABLA_CORRUPT, "the file ends in its header");
  return NABLA_OK;
}

/* Sets how many bytes the array has; they must be all that is left. */
static nabla_status check_size(const header *h, uint64_t left,
                               size_t *out_bytes) {
  uint64_t bytes = nabla_dtype_bits(h->dtype) / 8;
  for (uint32_t i = 0; i < h->rank; i++)
    if (!nabla_mul_u64(bytes, h->shape[i], &bytes) || bytes > INT64_MAX)
      return nabla_fail(h->diag, NABLA_TOO_LARGE, "the shape overflows");
  if (bytes != left)
    return nabla_fail(h->diag, NABLA_CORRUPT,
                      "the shape takes %" PRIu64 " bytes, the file has %" PRIu64
                      " after the header",
                      bytes, left);
  if (!nabla_cast_size(bytes, out_bytes))
    return nabla_fail(h->diag, NABLA_TOO_LARGE, "the array is too large");
  return NABLA_OK;
}

/* A byte that is no truth value would be undefined behaviour later. */
static nabla_status check_values(const header *h, const uint8_t *data,
                                 size_t bytes, uint64_t at) {
  if (h->dtype != NABLA_DTYPE_BOOL) return NABLA_OK;
  for (size_t i = 0; i < bytes; i++) {
    if (data[i] <= 1) continue;
    const nabla_status status = nabla_fail(
        h->diag, NABLA_CORRUPT, "a bool is %u, neither 0 nor 1", data[i]);
    nabla_diag_set_offset(h->diag, at + i);
    return status;
  }
  return NABLA_OK;
}

static nabla_status read_data(const nabla_file *file,
                              const nabla_allocator *allocator, const header *h,
                              uint64_t at, nabla_dense *out) {
  size_t bytes = 0;
  NABLA_TRY(check_size(h, nabla_file_size(file) - at, &bytes));
  void *data = NULL;
  NABLA_TRY(nabla_alloc(allocator, bytes, 1, &data, h->diag));
  nabla_status status = nabla_file_read(file, at, data, bytes, h->diag);
  if (!status) status = check_values(h, data, bytes, at);
  if (status) {
    nabla_free(allocator, data, bytes, 1);
    return status;
  }
  *out = (nabla_dense){.data = data, .dtype = h->dtype, .rank = h->rank};
  for (uint32_t i = 0; i < h->rank; i++) out->shape[i] = (int64_t)h->shape[i];
  return NABLA_OK;
}

static nabla_status read_file(const nabla_file *file,
                              const nabla_allocator *allocator,
                              nabla_dense *out, nabla_diag *diag) {
  header h = {.diag = diag};
  uint32_t size = 0;
  NABLA_TRY(read_prefix(file, &h.origin, &size, diag));
  void *text = NULL;
  NABLA_TRY(nabla_alloc(allocator, size, 1, &text, diag));
  nabla_status status = nabla_file_read(file, h.origin, text, size, diag);
  h.text = (nabla_cursor){text, size, 0};
  if (!status) status = take_header(&h);
  nabla_free(allocator, text, size, 1);
  if (!status) status = read_data(file, allocator, &h, h.origin + size, out);
  return status;
}

nabla_status npy_read(const char *path, const nabla_environment *environment,
                      nabla_dense *out, nabla_diag *diag) {
  static const nabla_environment defaults = {0};
  if (!environment) environment = &defaults;
  nabla_file *file = NULL;
  NABLA_TRY(nabla_file_open(environment->os, environment->allocator, path,
                            &file, diag));
  const nabla_status status =
      read_file(file, environment->allocator, out, diag);
  if (status) nabla_diag_set_file(diag, path);
  nabla_file_close(file);
  return status;
}

/* Bytes of an array whose shape is good. */
static int array_bytes(const nabla_dense *array, size_t *out) {
  uint64_t bytes = nabla_dtype_bits(array->dtype) / 8;
  for (uint32_t i = 0; i < array->rank; i++)
    if (array->shape[i] < 0 ||
        !nabla_mul_u64(bytes, (uint64_t)array->shape[i], &bytes))
      return 0;
  return bytes <= INT64_MAX && nabla_cast_size(bytes, out);
}

void npy_release(const nabla_environment *environment, nabla_dense *array) {
  size_t bytes;
  if (array->data && array_bytes(array, &bytes))
    nabla_free(environment ? environment->allocator : NULL, array->data, bytes,
               1);
  array->data = NULL;
}

/* ---- writing ------------------------------------------------------------ */

static const char *code_of(nabla_dtype dtype) {
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
    if (codes[i].dtype == dtype) return codes[i].code;
  return NULL;
}

/* Writes the whole header, byte for byte as numpy.save does: with room for the
 * first dimension to grow, then 1 to 64 spaces and the newline that align the
 * data. Returns its size. */
static size_t make_header(const nabla_dense *array, const char *code,
                          char out[HEADER_ROOM]) {
  const char order = code[1] == '1' ? '|' : '<';
  size_t at = PREFIX + 2;
  at += (size_t)snprintf(out + at, HEADER_ROOM - at,
                         "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                         order, code);
  for (uint32_t i = 0; i < array->rank; i++)
    at += (size_t)snprintf(out + at, HEADER_ROOM - at, "%s%" PRId64,
                           i ? ", " : "", array->shape[i]);
  at += (size_t)snprintf(out + at, HEADER_ROOM - at, "%s), }",
                         array->rank == 1 ? "," : "");
  const int digits = array->rank
                         ? snprintf(NULL, 0, "%" PRId64, array->shape[0])
                         : GROWTH_DIGITS;
  const size_t used = at + (size_t)(GROWTH_DIGITS - digits) + 1;
  const size_t size = (used / ALIGNMENT + 1) * ALIGNMENT;
  memset(out + at, ' ', size - at);
  out[size - 1] = '\n';
  memcpy(out, MAGIC "\x01\x00", PREFIX);
  out[PREFIX] = (char)((size - PREFIX - 2) & 0xff);
  out[PREFIX + 1] = (char)((size - PREFIX - 2) >> 8);
  return size;
}

nabla_status npy_write(const char *path, const nabla_dense *array, int force,
                       const nabla_environment *environment, nabla_diag *diag) {
  const char *code = code_of(array->dtype);
  size_t bytes = 0;
  if (!code) {
    const nabla_status status =
        nabla_fail(diag, NABLA_UNSUPPORTED, "NumPy has no type for %s",
                   nabla_dtype_name(array->dtype));
    nabla_diag_set_file(diag, path);
    nabla_diag_set_next(diag, "let the program give f32");
    return status;
  }
  if (array->rank > NABLA_ARRAY_MAX_RANK || !array_bytes(array, &bytes))
    return nabla_fail(diag, NABLA_TOO_LARGE, "the array's shape is too large");
  char start[HEADER_ROOM];
  const size_t size = make_header(array, code, start);
  if (tool_is_stream(path)) {
    const struct iovec parts[] = {{start, size}, {array->data, bytes}};
    return tool_stream_write(path, parts, 2, diag);
  }
  const nabla_output_options options = {
      .os = environment ? environment->os : NULL,
      .allocator = environment ? environment->allocator : NULL,
      .force = force};
  nabla_output *output = NULL;
  NABLA_TRY(nabla_output_create(path, &options, &output, diag));
  nabla_status status = nabla_output_write(output, 0, start, size, diag);
  if (!status && bytes)
    status = nabla_output_write(output, size, array->data, bytes, diag);
  if (!status) status = nabla_output_commit(output, diag);
  nabla_output_destroy(output);
  return status;
}
