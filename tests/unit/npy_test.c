/* .npy files: what NumPy writes is read, what is written is what NumPy writes,
 * and everything else is refused. */
#include "tools/nabla-run/npy.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/failing_allocator.h"
#include "tests/support/faulty_os.h"
#include "tests/support/memory_os.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

#define HEADER(descr, order, shape)                                  \
  "{'descr': " descr ", 'fortran_order': " order ", 'shape': " shape \
  ", "                                                               \
  "}"
#define F4(shape) HEADER("'<f4'", "False", shape)

typedef struct row {
  const char *header;
  size_t data; /* bytes after it, all 1 */
  nabla_status status;
  const char *what; /* a part of the message */
} row;

#define DIMENSIONS_16 "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2"

static const row rows[] = {
    /* accepted */
    {F4("(2, 3)"), 24, NABLA_OK, ""},
    {F4("(2, 3)") "      \n", 24, NABLA_OK, ""},
    {F4("()"), 4, NABLA_OK, ""},
    {F4("(6,)"), 24, NABLA_OK, ""},
    {F4("(6L,)"), 24, NABLA_OK, ""},
    {F4("(0, 9)"), 0, NABLA_OK, ""},
    {F4("(" DIMENSIONS_16 ")"), 8, NABLA_OK, ""},
    {"{\"shape\":(2,),\"descr\":\"<i4\",\"fortran_order\":False}", 8, NABLA_OK,
     ""},
    {HEADER("'|b1'", "False", "(3,)"), 3, NABLA_OK, ""},
    {HEADER("'>i1'", "False", "(3,)"), 3, NABLA_OK, ""},
    {HEADER("'<f2'", "True", "(3,)"), 6, NABLA_OK, ""},
    {HEADER("'<u8'", "False", "(1, 1)"), 8, NABLA_OK, ""},
    /* the data */
    {F4("(2, 3)"), 23, NABLA_CORRUPT, "24 bytes, the file has 23"},
    {F4("(2, 3)"), 25, NABLA_CORRUPT, "24 bytes, the file has 25"},
    {F4("(0,)"), 1, NABLA_CORRUPT, "0 bytes, the file has 1"},
    {F4("(4294967296, 4294967296)"), 0, NABLA_TOO_LARGE, "overflows"},
    {F4("(9223372036854775807,)"), 4, NABLA_TOO_LARGE, "overflows"},
    {F4("(4611686018427387903,)"), 4, NABLA_TOO_LARGE, "overflows"},
    {F4("(2305843009213693951,)"), 4, NABLA_CORRUPT, "the file has 4"},
    {F4("(9223372036854775808,)"), 4, NABLA_TOO_LARGE, "beyond"},
    {F4("(18446744073709551617,)"), 4, NABLA_TOO_LARGE, "beyond"},
    /* what cannot be read */
    {HEADER("'>f4'", "False", "(1,)"), 4, NABLA_UNSUPPORTED, "big-endian"},
    {HEADER("'<f4'", "True", "(1, 1)"), 4, NABLA_UNSUPPORTED, "Fortran"},
    {HEADER("'<c8'", "False", "(1,)"), 8, NABLA_UNSUPPORTED, "'<c8'"},
    {HEADER("'|f4'", "False", "(1,)"), 4, NABLA_UNSUPPORTED, "'|f4'"},
    {HEADER("'f4'", "False", "(1,)"), 4, NABLA_UNSUPPORTED, "'f4'"},
    {HEADER("'|O'", "False", "(1,)"), 4, NABLA_UNSUPPORTED, "'|O'"},
    {HEADER("''", "False", "(1,)"), 4, NABLA_UNSUPPORTED, "''"},
    {HEADER("'>'", "False", "(1,)"), 4, NABLA_UNSUPPORTED, "'>'"},
    {HEADER("[('a', '<f4')]", "False", "(1,)"), 4, NABLA_UNSUPPORTED,
     "structures"},
    {F4("(" DIMENSIONS_16 ", 1)"), 8, NABLA_TOO_LARGE, "more than 16"},
    /* other text */
    {"", 4, NABLA_CORRUPT, "expected '{'"},
    {"{}", 4, NABLA_CORRUPT, "lacks"},
    {"{'descr': '<f4', 'shape': (1,)}", 4, NABLA_CORRUPT, "lacks"},
    {"{'descr': '<f4', 'descr': '<f4'}", 4, NABLA_CORRUPT, "repeated"},
    {"{'descr': '<f4', 'shapes': (1,)}", 4, NABLA_CORRUPT, "unknown"},
    {"{'descr' '<f4'}", 4, NABLA_CORRUPT, "':'"},
    {"{'descr': '<f4' 'shape': (1,)}", 4, NABLA_CORRUPT, "',' or '}'"},
    {F4("(1,)") " x", 4, NABLA_CORRUPT, "the end"},
    {F4("(1)"), 4, NABLA_CORRUPT, "','"},
    {F4("(-1,)"), 4, NABLA_CORRUPT, "a dimension"},
    {F4("(1 1)"), 4, NABLA_CORRUPT, "',' or ')'"},
    {F4("(1,"), 4, NABLA_CORRUPT, "a dimension"},
    {F4("[1]"), 4, NABLA_CORRUPT, "a shape"},
    {F4("(0x1,)"), 4, NABLA_CORRUPT, "',' or ')'"},
    {HEADER("'<f4'", "0", "(1,)"), 4, NABLA_CORRUPT, "True or False"},
    {HEADER("'<f4", "False", "(1,)"), 4, NABLA_UNSUPPORTED, "'<f4, '"},
    {HEADER("'<f45678901234567'", "False", "(1,)"), 4, NABLA_CORRUPT, "a type"},
    {HEADER("'\\x3cf4'", "False", "(1,)"), 4, NABLA_CORRUPT, "a type"},
    {HEADER("7", "False", "(1,)"), 4, NABLA_CORRUPT, "a type"},
};

static nabla_diag diag;
static failing_allocator memory;
static memory_os files;
static nabla_environment environment;

static void set_up(void) {
  failing_allocator_init(&memory, 0);
  memory_os_init(&files, 1 << 20);
  environment =
      (nabla_environment){.allocator = &memory.allocator, .os = &files.os};
  diag = (nabla_diag)NABLA_DIAG_INIT;
}

static void tear_down(void) {
  cr_expect(failing_allocator_is_clean(&memory));
  cr_expect(memory_os_destroy(&files));
}

TestSuite(npy, .init = set_up, .fini = tear_down);

/* A file of a version, with `data` bytes of 1. Returns its size. */
static size_t make_file(uint8_t *out, uint8_t major, const char *header,
                        size_t data) {
  const size_t length = strlen(header);
  memcpy(out, "\x93NUMPY", 6);
  out[6] = major, out[7] = 0;
  out[8] = (uint8_t)length, out[9] = (uint8_t)(length >> 8);
  size_t at = 10;
  if (major > 1) out[10] = out[11] = 0, at = 12;
  memcpy(out + at, header, length);
  memset(out + at + length, 1, data);
  return at + length + data;
}

static nabla_status read_bytes(const void *bytes, size_t size,
                               nabla_dense *out) {
  memory_os_destroy(&files);
  memory_os_init(&files, 1 << 20);
  memory_os_put(&files, "/x.npy", bytes, size);
  diag = (nabla_diag)NABLA_DIAG_INIT;
  return npy_read("/x.npy", &environment, out, &diag);
}

Test(npy, headers) {
  static uint8_t file[1024];
  for (size_t i = 0; i < COUNT(rows); i++) {
    const row *r = &rows[i];
    for (uint8_t major = 1; major <= 3; major++) {
      const size_t size = make_file(file, major, r->header, r->data);
      nabla_dense array = {.rank = 77};
      const nabla_status status = read_bytes(file, size, &array);
      cr_expect_eq(status, r->status, "%s: %s %s", r->header,
                   nabla_status_name(status), diag.what);
      cr_expect(strstr(diag.what, r->what) != NULL, "%s: '%s' lacks '%s'",
                r->header, diag.what, r->what);
      if (status) {
        cr_expect_eq(array.rank, 77);
        cr_expect_str_eq(diag.file, "/x.npy");
      } else {
        cr_expect(!r->data ||
                  !memcmp(array.data, file + size - r->data, r->data));
        npy_release(&environment, &array);
      }
    }
  }
}

Test(npy, shapes_and_types_are_read) {
  static uint8_t file[1024];
  nabla_dense array;
  size_t size = make_file(file, 1, HEADER("'<i8'", "False", "(2, 1, 3)"), 48);
  cr_assert_eq(read_bytes(file, size, &array), NABLA_OK, "%s", diag.what);
  cr_expect_eq(array.dtype, NABLA_DTYPE_I64);
  cr_assert_eq(array.rank, 3);
  cr_expect_eq(array.shape[0], 2);
  cr_expect_eq(array.shape[1], 1);
  cr_expect_eq(array.shape[2], 3);
  npy_release(&environment, &array);
  cr_expect_null(array.data);
  npy_release(&environment, &array);
}

Test(npy, files_that_are_something_else_are_refused) {
  static uint8_t file[70000];
  nabla_dense array;
  const size_t size = make_file(file, 1, F4("(1,)"), 4);
  for (size_t cut = 0; cut < size; cut++)
    cr_expect_eq(read_bytes(file, cut, &array), NABLA_CORRUPT, "%zu", cut);
  file[6] = 4;
  cr_expect_eq(read_bytes(file, size, &array), NABLA_UNSUPPORTED);
  file[6] = 1, file[7] = 1;
  cr_expect_eq(read_bytes(file, size, &array), NABLA_UNSUPPORTED);
  file[7] = 0, file[0] = 'X';
  cr_expect_eq(read_bytes(file, size, &array), NABLA_CORRUPT);
  cr_expect_str_eq(diag.what, "this is no npy file");
  (void)make_file(file, 2, F4("(1,)"), 4);
  file[10] = 1; /* a header of 64 KiB and more */
  cr_expect_eq(read_bytes(file, sizeof file, &array), NABLA_TOO_LARGE);
  file[11] = 0xff;
  cr_expect_eq(read_bytes(file, sizeof file, &array), NABLA_TOO_LARGE);
  cr_expect_eq(npy_read("/none", &environment, &array, &diag), NABLA_IO);
  cr_expect_eq(npy_read("/", &environment, &array, &diag),
               NABLA_INVALID_ARGUMENT);
}

Test(npy, bools_are_0_or_1) {
  static uint8_t file[256];
  const size_t size = make_file(file, 1, HEADER("'|b1'", "False", "(5,)"), 5);
  nabla_dense array;
  file[size - 2] = 2;
  cr_expect_eq(read_bytes(file, size, &array), NABLA_CORRUPT);
  cr_expect_eq(diag.offset, size - 2);
}

/* ---- writing ------------------------------------------------------------- */

static nabla_dense array_of(nabla_dtype dtype, uint32_t rank, int64_t a,
                            int64_t b) {
  static uint8_t bytes[64];
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i & 1);
  return (nabla_dense){
      .data = bytes, .dtype = dtype, .rank = rank, .shape = {a, b}};
}

/* The bytes of numpy.save of NumPy 1.24 to 2.x. */
Test(npy, the_header_is_numpys) {
  static const struct {
    nabla_dtype dtype;
    uint32_t rank;
    const char *text;
  } cases[] = {
      {NABLA_DTYPE_F32, 2,
       "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }"},
      {NABLA_DTYPE_F16, 1,
       "{'descr': '<f2', 'fortran_order': False, 'shape': (3,), }"},
      {NABLA_DTYPE_BOOL, 0,
       "{'descr': '|b1', 'fortran_order': False, 'shape': (), }"},
      {NABLA_DTYPE_U8, 2,
       "{'descr': '|u1', 'fortran_order': False, 'shape': (3, 2), }"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    const nabla_dense array = array_of(cases[i].dtype, cases[i].rank, 3, 2);
    cr_assert_eq(npy_write("/y.npy", &array, 1, &environment, &diag), NABLA_OK,
                 "%s", diag.what);
    size_t size;
    const char *bytes = memory_os_get(&files, "/y.npy", &size);
    cr_assert(bytes && size >= 128);
    cr_expect_arr_eq(bytes, "\x93NUMPY\x01\x00\x76\x00", 10);
    cr_expect(!memcmp(bytes + 10, cases[i].text, strlen(cases[i].text)));
    for (size_t at = 10 + strlen(cases[i].text); at < 127; at++)
      cr_expect_eq(bytes[at], ' ');
    cr_expect_eq(bytes[127], '\n');
  }
}

Test(npy, what_is_written_is_read) {
  for (int d = 0; d < NABLA_DTYPE_COUNT; d++)
    for (uint32_t rank = 0; rank < 3; rank++) {
      const nabla_dense array = array_of((nabla_dtype)d, rank, 3, 2);
      nabla_dense back = {0};
      const nabla_status status =
          npy_write("/y.npy", &array, 1, &environment, &diag);
      if (status) {
        cr_expect_eq(status, NABLA_UNSUPPORTED);
        cr_expect(strstr(diag.next, "f32") != NULL);
        continue;
      }
      cr_assert_eq(npy_read("/y.npy", &environment, &back, &diag), NABLA_OK,
                   "%s", diag.what);
      cr_expect_eq(back.dtype, array.dtype);
      cr_assert_eq(back.rank, rank);
      cr_expect(!rank || !memcmp(back.shape, array.shape, rank * 8));
      const size_t count = rank == 0 ? 1 : rank == 1 ? 3 : 6;
      cr_expect(!memcmp(back.data, array.data,
                        count * nabla_dtype_bits(array.dtype) / 8));
      npy_release(&environment, &back);
    }
}

Test(npy, the_widest_header_fits) {
  nabla_dense array = {.dtype = NABLA_DTYPE_F32, .rank = NABLA_ARRAY_MAX_RANK};
  for (uint32_t i = 0; i < array.rank; i++) array.shape[i] = INT64_MAX;
  cr_expect_eq(npy_write("/y.npy", &array, 0, &environment, &diag),
               NABLA_TOO_LARGE);
  array.shape[0] = 0;
  nabla_dense back;
  cr_assert_eq(npy_write("/y.npy", &array, 0, &environment, &diag), NABLA_OK,
               "%s", diag.what);
  cr_assert_eq(npy_read("/y.npy", &environment, &back, &diag), NABLA_OK, "%s",
               diag.what);
  cr_expect_eq(back.shape[15], INT64_MAX);
  npy_release(&environment, &back);
  cr_expect_eq(npy_write("/y.npy", &array, 0, &environment, &diag),
               NABLA_EXISTS);
  array.rank = 17;
  cr_expect_eq(npy_write("/z.npy", &array, 0, &environment, &diag),
               NABLA_TOO_LARGE);
  array.rank = 2, array.shape[1] = -1;
  cr_expect_eq(npy_write("/z.npy", &array, 0, &environment, &diag),
               NABLA_TOO_LARGE);
  cr_expect_eq(memory_os_count(&files), 1);
}

/* ---- failures ------------------------------------------------------------ */

static nabla_status there_and_back(const nabla_environment *with) {
  const nabla_dense array = array_of(NABLA_DTYPE_F32, 2, 3, 2);
  nabla_dense back = {0};
  nabla_status status = npy_write("/y.npy", &array, 1, with, &diag);
  if (!status) status = npy_read("/y.npy", with, &back, &diag);
  npy_release(with, &back);
  return status;
}

Test(npy, every_allocation_fails_once) {
  nabla_status status = NABLA_NO_MEMORY;
  for (size_t at = 1; status && at < 100; at++) {
    failing_allocator failing;
    failing_allocator_init(&failing, at);
    const nabla_environment with = {.allocator = &failing.allocator,
                                    .os = &files.os};
    status = there_and_back(&with);
    cr_expect_eq(status, failing.failures ? NABLA_NO_MEMORY : NABLA_OK);
    cr_expect(failing_allocator_is_clean(&failing));
  }
  cr_expect_eq(status, NABLA_OK);
}

Test(npy, every_system_call_fails_once) {
  for (uint64_t at = 1; at < 100; at++) {
    faulty_os faulty;
    faulty_os_init(&faulty, &files.os);
    faulty.fail_at = at;
    const nabla_environment with = {.os = &faulty.os};
    const nabla_status status = there_and_back(&with);
    cr_expect(status == NABLA_OK || status == NABLA_IO);
    cr_expect_eq(faulty.open_fds, 0);
    if (!faulty.faults) break;
    cr_assert_lt(at, 99);
  }
}
