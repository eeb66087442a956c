/* Scales that wait for the others: in memory or in a file without a name; what
 * is written does not depend on threads, whatever fails nothing is left. */
#include "quant/write/spill.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nabla/quantize.h"
#include "tests/support/failing_allocator.h"
#include "tests/support/faulty_os.h"
#include "tests/support/model.h"
#include "tests/support/temp_folder.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* The least number of floats that goes to the disk. */
enum { MANY = (8 << 20) / 4 + 1 };

static temp_folder folder;
static char path[256];
static faulty_os os;
static failing_allocator allocator;
static nabla_diag diag;

static void set_up(void) {
  temp_folder_create(&folder);
  temp_folder_path(&folder, "out.safetensors", path);
  faulty_os_init(&os, NULL);
  failing_allocator_init(&allocator, 0);
  diag = (nabla_diag)NABLA_DIAG_INIT;
}

static void tear_down(void) { temp_folder_destroy(&folder); }

TestSuite(spill, .init = set_up, .fini = tear_down, .timeout = 300);

static nabla_status create(uint64_t count, nabla_spill **out) {
  *out = NULL;
  return nabla_spill_create(&allocator.allocator, &os.os, path, count, out,
                            &diag);
}

/* Writes `count` floats in pieces, the last first, and reads them in others. */
static nabla_status use(nabla_spill *spill, size_t count) {
  enum { PIECES = 7, OTHERS = 3 };
  float *in = malloc(count * sizeof *in), *back = malloc(count * sizeof *back);
  cr_assert(in && back);
  nabla_status status = NABLA_OK;
  for (size_t i = 0; i < count; i++) in[i] = (float)i;
  for (size_t p = PIECES; p-- > 0 && !status;) {
    const size_t at = count * p / PIECES, end = count * (p + 1) / PIECES;
    status = nabla_spill_write(spill, at, in + at, end - at, &diag);
  }
  for (size_t p = 0; p < OTHERS && !status; p++) {
    const size_t at = count * p / OTHERS, end = count * (p + 1) / OTHERS;
    status = nabla_spill_read(spill, at, back + at, end - at, &diag);
  }
  if (!status) cr_expect_eq(memcmp(in, back, count * sizeof *in), 0);
  free(in), free(back);
  return status;
}

static void finish(nabla_spill *spill) {
  nabla_spill_destroy(spill);
  cr_expect_eq(os.open_fds, 0);
  cr_expect(failing_allocator_is_clean(&allocator));
  cr_expect_eq(temp_folder_count(&folder), 0u);
}

Test(spill, few_floats_stay_in_memory) {
  nabla_spill *spill;
  cr_expect_eq(nabla_spill_disk_bytes(MANY - 1), 0u);
  cr_assert_eq(create(MANY - 1, &spill), NABLA_OK);
  cr_expect_eq(use(spill, MANY - 1), NABLA_OK);
  cr_expect_eq(os.calls[FAULTY_ANY], 0u);
  finish(spill);
}

Test(spill, many_lie_in_a_file_without_a_name) {
  nabla_spill *spill;
  cr_expect_eq(nabla_spill_disk_bytes(MANY), (uint64_t)MANY * 4);
  cr_assert_eq(create(MANY, &spill), NABLA_OK, "%s", diag.what);
  cr_expect_eq(temp_folder_count(&folder), 0u);
  cr_expect_eq(use(spill, MANY), NABLA_OK, "%s", diag.what);
  cr_expect_eq(os.calls[FAULTY_PWRITE], 7u);
  cr_expect_eq(os.calls[FAULTY_PREAD], 3u);
  finish(spill);
}

Test(spill, short_and_interrupted_transfers) {
  nabla_spill *spill;
  os.short_transfers = os.interrupt = 1;
  cr_assert_eq(create(MANY, &spill), NABLA_OK, "%s", diag.what);
  cr_expect_eq(use(spill, MANY), NABLA_OK, "%s", diag.what);
  finish(spill);
}

Test(spill, a_write_that_moves_nothing_ends) {
  nabla_spill *spill;
  os.zero_from = 2;
  os.short_transfers = 1;
  cr_assert_eq(create(MANY, &spill), NABLA_OK, "%s", diag.what);
  cr_expect_eq(use(spill, MANY), NABLA_IO);
  cr_expect_eq(os.calls[FAULTY_PWRITE], 2u);
  cr_expect_not_null(strstr(diag.what, "keep scales"), "%s", diag.what);
  finish(spill);
}

Test(spill, sizes_that_overflow_are_refused) {
  nabla_spill *spill;
  cr_expect_eq(nabla_spill_disk_bytes(UINT64_MAX / 4 + 1), UINT64_MAX);
  cr_expect_eq(create(UINT64_MAX / 4 + 1, &spill), NABLA_TOO_LARGE);
  cr_expect_eq(create((uint64_t)INT64_MAX / 4 + 1, &spill), NABLA_TOO_LARGE);
  finish(spill);
}

Test(spill, a_name_that_is_taken_is_left_alone) {
  nabla_spill *spill;
  os.fail_at = 1;
  os.error = -EEXIST;
  os.fail_calls = 3;
  cr_assert_eq(create(MANY, &spill), NABLA_OK, "%s", diag.what);
  cr_expect_eq(os.calls[FAULTY_OPEN], 4u);
  finish(spill);
  os.fail_at = 1;
  os.calls[FAULTY_ANY] = os.faults = 0;
  os.fail_calls = UINT64_MAX;
  cr_expect_eq(create(MANY, &spill), NABLA_IO);
  cr_expect_not_null(strstr(diag.what, "make a temporary file for scales"));
  cr_expect_str_eq(diag.file, path);
}

/* Which call fails, and what the message says. */
static const struct {
  faulty_call kind;
  uint64_t at;
  const char *what;
} faults[] = {
    {FAULTY_OPEN, 1, "make a temporary file for scales"},
    {FAULTY_PWRITE, 1, "keep scales"},
    {FAULTY_PWRITE, 5, "keep scales"},
    {FAULTY_PREAD, 2, "read scales"},
};

Test(spill, failures_name_the_output_and_leave_nothing) {
  for (size_t i = 0; i < COUNT(faults); i++) {
    nabla_spill *spill;
    faulty_os_init(&os, NULL);
    failing_allocator_init(&allocator, 0);
    diag = (nabla_diag)NABLA_DIAG_INIT;
    os.fail_kind = faults[i].kind;
    os.fail_at = faults[i].at;
    os.error = -ENOSPC;
    nabla_status status = create(MANY, &spill);
    if (!status) status = use(spill, MANY);
    cr_expect_eq(status, NABLA_IO);
    cr_expect_not_null(strstr(diag.what, faults[i].what), "%s", diag.what);
    cr_expect_not_null(strstr(diag.what, "bytes are free"), "%s", diag.what);
    cr_expect_str_eq(diag.file, path);
    finish(spill);
  }
}

/* No signal can leave behind a file that never had a name. */
Test(spill, a_file_has_no_name_where_the_system_can) {
  nabla_spill *spill;
  const nabla_os *real = nabla_os_default();
  const int fd = real->open(real->self, folder.path, NABLA_OS_UNNAMED);
  if (fd == -EOPNOTSUPP) cr_skip_test("the file system names every file");
  cr_assert_geq(fd, 0);
  cr_assert_eq(real->close(real->self, fd), 0);
  os.has_unnamed = 1;
  cr_assert_eq(create(MANY, &spill), NABLA_OK, "%s", diag.what);
  cr_expect_eq(os.calls[FAULTY_UNLINK], 0);
  cr_expect_eq(temp_folder_count(&folder), 0u);
  cr_expect_eq(use(spill, MANY), NABLA_OK, "%s", diag.what);
  finish(spill);
  os.fail_kind = FAULTY_OPEN;
  os.fail_at = os.calls[FAULTY_OPEN] + 1;
  os.fail_calls = 1;
  cr_expect_eq(create(MANY, &spill), NABLA_IO);
  cr_expect_not_null(strstr(diag.what, "make a temporary file"));
}

Test(spill, a_file_that_keeps_its_name_is_an_error) {
  nabla_spill *spill;
  os.fail_kind = FAULTY_UNLINK;
  os.fail_at = 1;
  cr_expect_eq(create(MANY, &spill), NABLA_OK, "once is tried again");
  finish(spill);
  failing_allocator_init(&allocator, 0);
  os.fail_at = os.calls[FAULTY_UNLINK] + 1;
  os.fail_calls = 2;
  cr_expect_eq(create(MANY, &spill), NABLA_IO);
  cr_expect_not_null(strstr(diag.what, "hide"), "%s", diag.what);
  cr_expect_eq(os.open_fds, 0);
  cr_expect(failing_allocator_is_clean(&allocator));
}

Test(spill, a_file_that_ends_early_is_an_error) {
  nabla_spill *spill;
  float value = 1;
  cr_assert_eq(create(MANY, &spill), NABLA_OK);
  cr_expect_eq(nabla_spill_read(spill, 5, &value, 1, &diag), NABLA_IO);
  cr_expect_eq(value, 1.0f);
  finish(spill);
}

Test(spill, survives_failing_allocations) {
  for (size_t i = 0; i < 2; i++)
    for (size_t n = 1;; n++) {
      nabla_spill *spill;
      failing_allocator_init(&allocator, n);
      const nabla_status status = create(i ? MANY : 10, &spill);
      cr_expect_eq(status, allocator.failures ? NABLA_NO_MEMORY : NABLA_OK);
      finish(spill);
      if (!status) break;
    }
}

/* ---- quantize with scales on the disk ----------------------------------- */

/* Two tensors whose scales in blocks of 16 together do not stay in memory; the
 * first takes several pieces of the second pass. */
static const model_tensor model[] = {
    {"a.weight", NABLA_DTYPE_F16, 2, {8000, 4096}, NULL},
    {"b.weight", NABLA_DTYPE_F16, 2, {300, 4096}, NULL},
};

static char source[256];
static nabla_environment environment;
static nabla_write_summary summary;

/* Any finite halves, of many magnitudes. */
static void write_model(void) {
  model_tensor tensors[COUNT(model)];
  uint64_t state = 1;
  for (size_t t = 0; t < COUNT(model); t++) {
    const size_t count = (size_t)(model[t].shape[0] * model[t].shape[1]);
    uint16_t *values = malloc(count * sizeof *values);
    cr_assert_not_null(values);
    for (size_t i = 0; i < count; i++) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      values[i] = (uint16_t)(state >> 48 & 0xafff);
    }
    tensors[t] = model[t];
    tensors[t].data = values;
  }
  temp_folder_path(&folder, "in.safetensors", source);
  model_write(source, tensors, COUNT(model));
  for (size_t t = 0; t < COUNT(model); t++)
    free((void *)(uintptr_t)tensors[t].data);
}

static nabla_status quantize(const char *to) {
  const nabla_quantize_options options = {
      .struct_size = sizeof options,
      .encoding = nabla_encoding_find("nf4"),
      .settings = {.block = 16, .has_scale = 1, .scale = NABLA_SCALE_DYNAMIC8}};
  const nabla_write_options where = {
      .struct_size = sizeof where, .path = to, .force = 1};
  nabla_checkpoint *checkpoint = NULL;
  nabla_plan *plan = NULL;
  diag = (nabla_diag)NABLA_DIAG_INIT;
  nabla_status status =
      nabla_checkpoint_open(source, &environment, &checkpoint, &diag);
  if (!status)
    status =
        nabla_plan_create(checkpoint, &options, &environment, &plan, &diag);
  if (!status)
    status = nabla_plan_write(plan, &where, &environment, &summary, &diag);
  nabla_plan_destroy(plan);
  nabla_checkpoint_close(checkpoint);
  return status;
}

Test(spill, threads_do_not_change_a_byte) {
  static const uint32_t threads[] = {2, 7, 100};
  char other[256];
  write_model();
  temp_folder_path(&folder, "other.safetensors", other);
  cr_assert_eq(quantize(path), NABLA_OK, "%s", diag.what);
  for (size_t i = 0; i < COUNT(threads); i++) {
    cr_assert_eq(nabla_pool_create(threads[i], NULL, &environment.pool, &diag),
                 NABLA_OK);
    cr_expect_eq(quantize(other), NABLA_OK, "%s", diag.what);
    nabla_pool_destroy(environment.pool);
    environment.pool = NULL;
    cr_expect(model_same_files(path, other), "%u threads", threads[i]);
  }
}

/* The output alone would fit. */
Test(spill, the_free_space_must_hold_the_scales_too) {
  write_model();
  environment.os = &os.os;
  cr_assert_eq(quantize(path), NABLA_OK, "%s", diag.what);
  const uint64_t scales =
      (model[0].shape[0] + model[1].shape[0]) * 4096 / 16 * sizeof(float);
  cr_expect_gt(nabla_spill_disk_bytes(scales / 4), 0u);
  os.space = summary.bytes_out + scales - 4096;
  cr_expect_eq(quantize(path), NABLA_IO);
  cr_expect_not_null(strstr(diag.what, "the output needs"), "%s", diag.what);
  os.space = summary.bytes_out + scales;
  cr_expect_eq(quantize(path), NABLA_OK, "%s", diag.what);
  cr_expect_eq(temp_folder_count(&folder), 2u);
}

/* Counts calls, and makes one fail that belongs to the spill. */
typedef struct moment {
  uint64_t opens, spill_open; /* which call of open was the spill's */
} moment;

static void notice(void *context, faulty_call kind, const char *name) {
  moment *m = context;
  if (kind == FAULTY_OPEN && ++m->opens && strstr(name, ".scales-"))
    m->spill_open = m->opens;
}

static void expect_failure(faulty_call kind, uint64_t at, const char *what) {
  faulty_os_init(&os, NULL);
  os.fail_kind = kind;
  os.fail_at = at;
  cr_expect_eq(quantize(path), NABLA_IO);
  cr_expect_not_null(strstr(diag.what, what), "%s", diag.what);
  cr_expect_eq(os.open_fds, 0);
  cr_expect_eq(os.faults, 1u);
  cr_expect_eq(temp_folder_count(&folder), 1u, "%s", what);
}

Test(spill, what_fails_there_fails_the_whole) {
  moment m = {0};
  write_model();
  environment.os = &os.os;
  os.before = notice;
  os.context = &m;
  cr_assert_eq(quantize(path), NABLA_OK, "%s", diag.what);
  const uint64_t reads = os.calls[FAULTY_PREAD];
  cr_assert_gt(m.spill_open, 0u);
  cr_assert_eq(remove(path), 0);
  expect_failure(FAULTY_OPEN, m.spill_open, "make a temporary file");
  /* the last pass reads all scales again, and nothing else */
  expect_failure(FAULTY_PREAD, reads, "read scales");
  expect_failure(FAULTY_PREAD, reads - 64, "read scales");
}
