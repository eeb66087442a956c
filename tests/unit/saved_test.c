/* Saved programs: opened and run, and refused with a sentence whatever is wrong
 * with them. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/bytes.h"
#include "lib/runtime/program/saved_program.h"
#include "nabla/executable.h"
#include "nabla/session.h"
#include "tests/support/failing_allocator.h"
#include "tests/support/figure.h"
#include "tests/support/temp_folder.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#if defined(__x86_64__)
#define TRIPLE "x86_64-pc-linux-gnu"
#else
#define TRIPLE "aarch64-unknown-linux-gnu"
#endif
#define FIXED NABLA_SAVED_FIXED

static temp_folder folder;
static char path[256];
static nabla_buffer file;
static nabla_diag diag;

static void read_library(const char *library, nabla_buffer *out) {
  nabla_file *input;
  cr_assert_eq(nabla_file_open(NULL, NULL, library, &input, &diag), NABLA_OK);
  const size_t size = (size_t)nabla_file_size(input);
  nabla_buffer_init(out, NULL, "a test", 1u << 28);
  cr_assert_eq(nabla_buffer_append(out, NULL, size, NULL), NABLA_OK);
  cr_assert_eq(nabla_file_read(input, 0, out->data, size, &diag), NABLA_OK);
  nabla_file_close(input);
}

static void save(const char *library, const char *triple,
                 const nabla_x86_features *features) {
  read_library(library, &file);
  cr_assert_eq(nabla_saved_append(&file, triple, features, &diag), NABLA_OK);
}

static void write_part(const char *name, size_t size) {
  temp_folder_write(&folder, name, file.data, size);
  temp_folder_path(&folder, name, path);
}

static void set_up(void) {
  static const nabla_x86_features none;
  temp_folder_create(&folder);
  save(NABLA_SAVED_TWICE, TRIPLE, &none);
  write_part("p.so", file.size);
}

static void tear_down(void) {
  nabla_buffer_deinit(&file);
  temp_folder_destroy(&folder);
}

TestSuite(saved, .init = set_up, .fini = tear_down);

static nabla_executable *open_it(const char *name) {
  nabla_executable *out = NULL;
  cr_assert_eq(nabla_executable_open(name, NULL, &out, &diag), NABLA_OK,
               "%s: %s", diag.what, diag.next);
  return out;
}

static float run(nabla_executable *executable) {
  float x[2] = {3, 5};
  const nabla_dense in = {x, NABLA_DTYPE_F32, 1, {2}};
  nabla_dense out = {0};
  cr_assert_eq(
      nabla_executable_run(executable, "scale", &in, 1, &out, 1, &diag),
      NABLA_OK);
  const float y = ((const float *)out.data)[1];
  nabla_dense_release(executable, &out);
  return y;
}

/* Opening fails so, and says so: the file, a sentence, and what to do. */
static void refused(nabla_status wanted, const char *what) {
  nabla_executable *out = (nabla_executable *)&diag;
  const nabla_status status = nabla_executable_open(path, NULL, &out, &diag);
  cr_assert_eq(status, wanted, "%s: %s", nabla_status_name(status), diag.what);
  cr_assert_eq(diag.code, wanted);
  cr_assert(strstr(diag.what, what), "'%s' is not in '%s'", what, diag.what);
  cr_assert_str_eq(diag.file, path);
  cr_assert_neq(*diag.next, 0);
  cr_assert_eq((void *)out, (void *)&diag, "outputs stay as they were");
}

/* Makes the hash right again: what is wrong is what the file says. */
static void seal(void) {
  XXH128_canonical_t hash;
  const size_t size = file.size - NABLA_SAVED_HASH_SIZE;
  XXH128_canonicalFromHash(&hash, XXH3_128bits(file.data, size));
  memcpy(file.data + size, hash.digest, sizeof hash.digest);
  write_part("sealed.so", file.size);
}

static uint8_t *fixed(void) { return file.data + file.size - FIXED; }

Test(saved, runs) {
  nabla_executable *program = open_it(path);
  cr_expect_eq(nabla_executable_function_count(program), 1);
  cr_expect_eq(run(program), 10.0F);
  nabla_executable_close(program);
}

/* The loader knows libraries by path and by file: neither may mix them up. */
Test(saved, several_at_once) {
  static const nabla_x86_features none;
  char twice[256], thrice[256];
  memcpy(twice, path, sizeof twice);
  nabla_buffer_deinit(&file);
  save(NABLA_SAVED_THRICE, TRIPLE, &none);
  write_part("q.so", file.size);
  memcpy(thrice, path, sizeof thrice);
  for (int i = 0; i < 40; i++) {
    nabla_executable *a = open_it(twice), *b = open_it(twice);
    nabla_executable_close(a);
    nabla_executable *c = open_it(thrice), *d = open_it(twice);
    cr_assert_eq(run(b), 10.0F);
    cr_assert_eq(run(c), 15.0F);
    cr_assert_eq(run(d), 10.0F);
    nabla_executable_close(b);
    cr_assert_eq(run(d), 10.0F);
    nabla_executable_close(d);
    nabla_executable_close(c);
  }
}

Test(saved, one_flipped_byte) {
  const size_t code = file.size - FIXED - sizeof TRIPLE - 1;
  const uint8_t *manifest = memmem(file.data, code, "{\"abi\"", 6);
  cr_assert_not_null(manifest);
  const size_t described = (size_t)(manifest - file.data);
  size_t tried = 0;
  for (size_t at = 0; at < file.size; at++) {
    const int every =
        at < 64 || at >= code || (at >= described && at < described + 150);
    if (!every && at % 97) continue;
    file.data[at] ^= (uint8_t)(1u << at % 8);
    write_part("flipped.so", file.size);
    const size_t magic = file.size - FIXED + 24;
    refused(NABLA_CORRUPT, at >= magic && at < magic + NABLA_SAVED_MAGIC_SIZE
                               ? "no saved program"
                               : "damaged");
    file.data[at] ^= (uint8_t)(1u << at % 8);
    tried++;
  }
  cr_assert_geq(tried, 300);
  figure_print("flipped_bytes", "", tried);
}

Test(saved, truncated_or_longer) {
  for (size_t size = 0; size < file.size; size += size < 200 ? 1 : 199) {
    write_part("short.so", size);
    refused(NABLA_CORRUPT, "no saved program");
  }
  write_part("short.so", file.size - 1);
  refused(NABLA_CORRUPT, "no saved program");
  cr_assert_eq(nabla_buffer_append(&file, "", 1, NULL), NABLA_OK);
  write_part("long.so", file.size);
  refused(NABLA_CORRUPT, "no saved program");
}

/* Bytes put in front of the record, with a hash that is right. */
Test(saved, sizes_that_do_not_fit) {
  const uint64_t size = nabla_load_le64(fixed());
  const uint64_t sizes[] = {0, size - 1, size + 1, UINT64_MAX, UINT64_MAX - 60};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    nabla_store_le64(fixed(), sizes[i]);
    seal();
    refused(NABLA_CORRUPT, "damaged");
  }
  nabla_store_le64(fixed(), size);
  const uint32_t text = nabla_load_le32(fixed() + 8);
  const uint32_t texts[] = {0, 1, text - 1, text + 1, UINT32_MAX};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    nabla_store_le32(fixed() + 8, texts[i]);
    seal();
    refused(NABLA_CORRUPT, "damaged");
  }
}

Test(saved, no_file) {
  temp_folder_path(&folder, "missing.so", path);
  nabla_executable *out = NULL;
  cr_expect_eq(nabla_executable_open(path, NULL, &out, &diag), NABLA_IO);
  cr_expect_str_eq(diag.file, path);
  cr_expect_eq(nabla_executable_open(folder.path, NULL, &out, &diag),
               NABLA_INVALID_ARGUMENT);
  temp_folder_path(&folder, "fifo", path);
  cr_assert_eq(mkfifo(path, 0600), 0);
  cr_expect_eq(nabla_executable_open(path, NULL, &out, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect_null(out);
}

Test(saved, other_versions) {
  nabla_store_le32(fixed() + 20, NABLA_SAVED_VERSION + 1);
  seal();
  refused(NABLA_UNSUPPORTED, "version 2 of its record");
  nabla_store_le32(fixed() + 20, NABLA_SAVED_VERSION);
  nabla_store_le32(fixed() + 16, 7);
  seal();
  refused(NABLA_UNSUPPORTED, "version 7 of the services");
}

Test(saved, other_machines) {
  static const nabla_x86_features none;
  static const char *const triples[] = {"riscv64-unknown-linux-gnu",
                                        "x86_64-pc-windows-msvc", "x86_64", "",
                                        "x86_64h-apple-darwin"};
  for (size_t i = 0; i < sizeof triples / sizeof *triples; i++) {
    nabla_buffer_deinit(&file);
    save(NABLA_SAVED_TWICE, triples[i], &none);
    write_part("other.so", file.size);
    refused(NABLA_UNSUPPORTED, "the saved program is for");
  }
}

/* Every feature alone: opened where this CPU has it, refused by name else. */
Test(saved, features) {
  for (size_t i = 0; i < NABLA_X86_FEATURE_COUNT; i++) {
    nabla_x86_features one = {{0}};
    one.has[i] = 1;
    nabla_buffer_deinit(&file);
    save(NABLA_SAVED_TWICE, TRIPLE, &one);
    write_part("feature.so", file.size);
    if (nabla_x86_has((nabla_x86_feature)i))
      nabla_executable_close(open_it(path));
    else
      refused(NABLA_UNSUPPORTED, nabla_x86_feature_name(i));
  }
}

/* A CPU without anything, and a feature of times to come. */
Test(saved, features_of_others) {
  static const nabla_x86_features none;
  const nabla_saved_record record = {
      .triple = TRIPLE, .features = "avx2,fma", .abi = 1};
  cr_expect_eq(nabla_saved_check(&record, &none, &diag), NABLA_UNSUPPORTED);
  cr_expect_str_eq(diag.what,
                   "the saved program needs avx2, which this CPU lacks");
  cr_expect(strstr(diag.next, "--target"));
  const nabla_saved_record later = {
      .triple = TRIPLE, .features = "avx2048", .abi = 1};
  cr_expect_eq(nabla_saved_check(&later, nabla_x86_features_here(), &diag),
               NABLA_UNSUPPORTED);
  cr_expect(strstr(diag.what, "this build does not know"));
}

/* A thread whose signal stack is too small for tile registers, as the system
 * has it: it does not permit them, and what needs them is refused. */
Test(saved, tiles_without_permission) {
  static char stack[4096];
  const stack_t small = {.ss_sp = stack, .ss_size = sizeof stack};
  const nabla_saved_record record = {
      .triple = TRIPLE, .features = "amx-tile,amx-bf16", .abi = 1};
  if (!nabla_x86_has(NABLA_X86_AMX_TILE) || sigaltstack(&small, NULL))
    cr_skip_test("no AMX here, or no small signal stacks");
  cr_assert_eq(nabla_x86_tiles_allowed(), 0);
  cr_expect_eq(nabla_saved_check(&record, nabla_x86_features_here(), &diag),
               NABLA_UNSUPPORTED);
  cr_expect_str_eq(diag.what,
                   "the saved program needs amx-tile, which the system does "
                   "not permit here");
  cr_expect(strstr(diag.next, "--target"));
}

/* A good record behind what is no library. */
Test(saved, no_library) {
  static const nabla_x86_features none;
  nabla_buffer_deinit(&file);
  nabla_buffer_init(&file, NULL, "a test", 1u << 20);
  cr_assert_eq(nabla_buffer_append(&file, "text", 4, NULL), NABLA_OK);
  cr_assert_eq(nabla_saved_append(&file, TRIPLE, &none, &diag), NABLA_OK);
  write_part("text.so", file.size);
  refused(NABLA_IO, "the system does not load it");
}

Test(saved, too_large) {
  temp_folder_write(&folder, "large.so", "", 0);
  temp_folder_path(&folder, "large.so", path);
  cr_assert_eq(truncate(path, (off_t)NABLA_SAVED_MAX + 1), 0);
  nabla_executable *out = NULL;
  cr_expect_eq(nabla_executable_open(path, NULL, &out, &diag), NABLA_TOO_LARGE);
  cr_expect_str_eq(diag.file, path);
}

Test(saved, no_memory) {
  for (size_t at = 1;; at++) {
    failing_allocator memory;
    failing_allocator_init(&memory, at);
    const nabla_environment environment = {.allocator = &memory.allocator};
    nabla_executable *out = NULL;
    const nabla_status status =
        nabla_executable_open(path, &environment, &out, &diag);
    const size_t failures = memory.failures;
    cr_assert_eq(status, failures ? NABLA_NO_MEMORY : NABLA_OK);
    nabla_executable_close(out);
    cr_assert(failing_allocator_is_clean(&memory));
    if (!failures) break;
  }
}

/* What GCC knows of this CPU. */
#if defined(__x86_64__)
#define SAME(id, name) \
  cr_expect_eq(nabla_x86_has(NABLA_X86_##id), !!__builtin_cpu_supports(name))
Test(x86_features, here) {
  SAME(SSE4_2, "sse4.2");
  SAME(POPCNT, "popcnt");
  SAME(AES, "aes");
  SAME(AVX, "avx");
  SAME(AVX2, "avx2");
  SAME(BMI2, "bmi2");
  SAME(FMA, "fma");
  SAME(F16C, "f16c");
  SAME(FMA4, "fma4");
  SAME(XOP, "xop");
  SAME(GFNI, "gfni");
  SAME(AVX512F, "avx512f");
  SAME(AVX512BW, "avx512bw");
  SAME(AVX512DQ, "avx512dq");
  SAME(AVX512VL, "avx512vl");
  SAME(AVX512CD, "avx512cd");
  SAME(AVX512VBMI, "avx512vbmi");
  SAME(AVX512VBMI2, "avx512vbmi2");
  SAME(AVX512VNNI, "avx512vnni");
  SAME(AVX512BITALG, "avx512bitalg");
  SAME(AVX512IFMA, "avx512ifma");
  SAME(AVX512VPOPCNTDQ, "avx512vpopcntdq");
  SAME(AVX512BF16, "avx512bf16");
  SAME(AVX512VP2INTERSECT, "avx512vp2intersect");
}
#endif

/* ---- a program from before ---------------------------------------------- */

/* tests/golden/saved-before-sessions.x86-64: y = x * w by columns, and the sums
 * of its rows. Compiled for x86-64 by the commit 4b8e966 (2026-11-23), whose
 * services end before `result` and whose manifest knows neither states nor
 * donations:
 *
 *   func.func @scale(%x: tensor<?x8xf32> {nabla.name = "x"},
 *                    %w: tensor<8xf32> {nabla.name = "w"})
 *       -> (tensor<?x8xf32>, tensor<?xf32>)
 *
 * Such files must open and run as long as NABLA_SERVICES_VERSION is 1. */
static const char *from_before(void) {
#if defined(__x86_64__)
  return NABLA_GOLDEN_DIR "/saved-before-sessions.x86-64";
#else
  cr_skip_test("the saved program from before is for x86-64");
  return "";
#endif
}

enum { ROWS = 3, COLUMNS = 8 };

static void expect_scaled(const nabla_dense *y, const nabla_dense *sums,
                          const float *x, const float *w) {
  for (int r = 0; r < ROWS; r++) {
    float sum = 0; /* of small integers: exact in any order */
    for (int c = 0; c < COLUMNS; c++) {
      sum += x[r * COLUMNS + c] * w[c];
      cr_expect_eq(((float *)y->data)[r * COLUMNS + c],
                   x[r * COLUMNS + c] * w[c]);
    }
    cr_expect_eq(((float *)sums->data)[r], sum);
  }
}

Test(saved, a_program_from_before_opens_and_runs) {
  nabla_executable *program = open_it(from_before());
  static float x[ROWS * COLUMNS], w[COLUMNS];
  for (int i = 0; i < ROWS * COLUMNS; i++) x[i] = (float)(i - 9);
  for (int i = 0; i < COLUMNS; i++) w[i] = (float)(i + 1);
  const nabla_dense in[] = {{x, NABLA_DTYPE_F32, 2, {ROWS, COLUMNS}},
                            {w, NABLA_DTYPE_F32, 1, {COLUMNS}}};
  nabla_dense out[2] = {{0}};
  cr_assert_eq(nabla_executable_run(program, "scale", in, 2, out, 2, &diag),
               NABLA_OK, "%s", diag.what);
  expect_scaled(&out[0], &out[1], x, w);
  for (int i = 0; i < 2; i++) nabla_dense_release(program, &out[i]);
  nabla_executable_close(program);
}

Test(saved, a_program_from_before_runs_in_a_session) {
  nabla_executable *program = open_it(from_before());
  nabla_session *session = NULL;
  static float x[ROWS * COLUMNS], w[COLUMNS], y[ROWS * COLUMNS], sums[ROWS];
  for (int i = 0; i < ROWS * COLUMNS; i++) x[i] = (float)(i - 9);
  for (int i = 0; i < COLUMNS; i++) w[i] = 2;
  const nabla_weight_desc weight = {
      .rank = 1,
      .shape = {COLUMNS},
      .dtype = NABLA_DTYPE_F32,
      .component_count = 1,
      .components = {{NULL, NABLA_DTYPE_F32, w, sizeof w}}};
  cr_assert_eq(nabla_executable_bind(program, "w", &weight, &diag), NABLA_OK);
  cr_assert_eq(nabla_session_create(program, NULL, &session, &diag), NABLA_OK);
  cr_expect_eq(nabla_session_state_count(session), 0);
  const nabla_dense in = {x, NABLA_DTYPE_F32, 2, {ROWS, COLUMNS}};
  nabla_dense out[] = {{y, NABLA_DTYPE_F32, 2, {ROWS, COLUMNS}},
                       {sums, NABLA_DTYPE_F32, 1, {ROWS}}};
  for (int i = 0; i < 3; i++) {
    memset(y, 0xa5, sizeof y);
    cr_assert_eq(nabla_session_run(session, "scale", &in, 1, out, 2, &diag),
                 NABLA_OK, "%s", diag.what);
    expect_scaled(&out[0], &out[1], x, w);
  }
  nabla_session_close(session);
  nabla_executable_close(program);
}
