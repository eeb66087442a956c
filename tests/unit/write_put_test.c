/* Workers that find another one writing go on: one writes at a time, others
 * read and encode meanwhile, what waits is written in the end, and what fails
 * then fails the whole. */
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "nabla/quantize.h"
#include "tests/support/failing_allocator.h"
#include "tests/support/faulty_os.h"
#include "tests/support/model.h"
#include "tests/support/temp_folder.h"

enum { ROWS = 3000, COLUMNS = 1024, THREADS = 3 }; /* 12 tiles of 2^18 */

static temp_folder folder;
static char source[256], out[256], good[256];
static nabla_diag diag;
static float *values;

/* Writes that take their time, so that others meet them. */
static nabla_os slow;
static _Atomic int writing, most_writing, reads_meanwhile;

static int64_t slow_pwrite(void *self, int fd, const void *in, size_t size,
                           uint64_t at) {
  const int now = atomic_fetch_add(&writing, 1) + 1;
  int most = atomic_load(&most_writing);
  while (most < now &&
         !atomic_compare_exchange_weak(&most_writing, &most, now)) {
  }
  const struct timespec pause = {0, 3000000};
  nanosleep(&pause, NULL);
  const int64_t result = nabla_os_default()->pwrite(self, fd, in, size, at);
  atomic_fetch_sub(&writing, 1);
  return result;
}

static int64_t counting_pread(void *self, int fd, void *to, size_t size,
                              uint64_t at) {
  if (atomic_load(&writing)) atomic_fetch_add(&reads_meanwhile, 1);
  return nabla_os_default()->pread(self, fd, to, size, at);
}

static void write_model(void) {
  const model_tensor tensor = {
      "a.weight", NABLA_DTYPE_F32, 2, {ROWS, COLUMNS}, values};
  model_write(source, &tensor, 1);
}

static nabla_status quantize(const nabla_os *os, uint32_t threads,
                             const nabla_allocator *allocator, const char *to) {
  const nabla_quantize_options options = {
      .struct_size = sizeof options,
      .encoding = nabla_encoding_find("int4"),
      .settings = {.zero_point = 1, .has_scale = 1, .scale = NABLA_SCALE_F16}};
  const nabla_write_options where = {.struct_size = sizeof where, .path = to};
  nabla_environment environment = {.os = os, .allocator = allocator};
  nabla_checkpoint *checkpoint = NULL;
  nabla_plan *plan = NULL;
  nabla_write_summary summary;
  diag = (nabla_diag)NABLA_DIAG_INIT;
  nabla_status status =
      nabla_pool_create(threads, NULL, &environment.pool, &diag);
  if (!status)
    status = nabla_checkpoint_open(source, &environment, &checkpoint, &diag);
  if (!status)
    status =
        nabla_plan_create(checkpoint, &options, &environment, &plan, &diag);
  if (!status)
    status = nabla_plan_write(plan, &where, &environment, &summary, &diag);
  nabla_plan_destroy(plan);
  nabla_checkpoint_close(checkpoint);
  nabla_pool_destroy(environment.pool);
  return status;
}

static void set_up(void) {
  temp_folder_create(&folder);
  temp_folder_path(&folder, "in.safetensors", source);
  temp_folder_path(&folder, "out.safetensors", out);
  temp_folder_path(&folder, "good.safetensors", good);
  slow = *nabla_os_default();
  slow.pwrite = slow_pwrite;
  slow.pread = counting_pread;
  values = malloc((size_t)ROWS * COLUMNS * sizeof *values);
  cr_assert_not_null(values);
  model_fill(values, (size_t)ROWS * COLUMNS, 1);
  write_model();
}

static void tear_down(void) {
  free(values);
  model_remove_tree(folder.path);
}

TestSuite(write_put, .init = set_up, .fini = tear_down, .timeout = 300);

Test(write_put, one_writes_while_others_go_on) {
  cr_assert_eq(quantize(NULL, 1, NULL, good), NABLA_OK, "%s", diag.what);
  cr_assert_eq(quantize(&slow, THREADS, NULL, out), NABLA_OK, "%s", diag.what);
  cr_expect(model_same_files(good, out));
  cr_expect_eq(atomic_load(&most_writing), 1);
  cr_expect_gt(atomic_load(&reads_meanwhile), 0);
}

Test(write_put, every_write_fails_once) {
  for (size_t n = 1;; n++) {
    failing_allocator allocator;
    faulty_os os;
    failing_allocator_init(&allocator, 0);
    faulty_os_init(&os, &slow);
    os.fail_kind = FAULTY_PWRITE;
    os.fail_at = n;
    const nabla_status status =
        quantize(&os.os, THREADS, &allocator.allocator, out);
    cr_expect_eq(os.open_fds, 0);
    cr_expect(failing_allocator_is_clean(&allocator));
    if (!os.faults) {
      cr_expect_gt(n, 36u, "three components of twelve tiles");
      cr_expect_eq(status, NABLA_OK);
      return;
    }
    cr_expect_eq(status, NABLA_IO, "write %zu", n);
    cr_expect_eq(temp_folder_count(&folder), 1u);
  }
}

/* The error is that of the first bad value, as on one thread. */
Test(write_put, the_lowest_tile_is_reported) {
  const size_t bad[] = {(size_t)1500 * COLUMNS, (size_t)2999 * COLUMNS};
  values[bad[0]] = NAN;
  values[bad[1]] = INFINITY;
  write_model();
  cr_assert_eq(quantize(NULL, 1, NULL, out), NABLA_NOT_FINITE);
  const nabla_diag wanted = diag;
  cr_assert_eq(quantize(&slow, THREADS, NULL, out), NABLA_NOT_FINITE);
  cr_expect_str_eq(diag.what, wanted.what);
  cr_expect_eq(temp_folder_count(&folder), 1u);
}
