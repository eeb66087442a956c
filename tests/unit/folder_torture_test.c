/* A whole model's folder, quantized: every allocation and every call of the
 * operating system fails once, and the disk fills up at every size. The output
 * is as it was before or complete, sub-folders and config.json too; nothing is
 * left behind and nothing leaks. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nabla/folder.h"
#include "tests/support/failing_allocator.h"
#include "tests/support/faulty_os.h"
#include "tests/support/figure.h"
#include "tests/support/model.h"
#include "tests/support/temp_folder.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* More steps than a run takes. */
enum { MAX_STEPS = 5000 };

static temp_folder base;
static char in[256], out[256], good[256];
static nabla_os quick; /* the real system without waiting for the disk */

/* What the output holds, in all. */
static const char *const written[] = {"model.safetensors", "config.json",
                                      "tokenizer.json", "sub/deep/vocab.txt"};

static int no_sync(void *self, int fd) {
  (void)self, (void)fd;
  return 0;
}

static void join(char path[512], const char *folder, const char *name) {
  const int length = snprintf(path, 512, "%s/%s", folder, name);
  cr_assert(length > 0 && length < 512);
}

static void put(const char *folder, const char *name, const char *text) {
  char path[512];
  join(path, folder, name);
  FILE *file = fopen(path, "wb");
  cr_assert_not_null(file);
  fputs(text, file);
  fclose(file);
}

static void make_folder(const char *folder, const char *name) {
  char path[512];
  join(path, folder, name);
  cr_assert_eq(mkdir(path, 0777), 0);
}

static nabla_status quantize(int force, const nabla_environment *environment,
                             nabla_diag *diag) {
  const nabla_quantize_options options = {
      .struct_size = sizeof options,
      .encoding = nabla_encoding_find("nf4"),
      .settings = {.has_scale = 1, .scale = NABLA_SCALE_DYNAMIC8}};
  nabla_checkpoint *checkpoint = NULL;
  nabla_plan *plan = NULL;
  nabla_folder *folder = NULL;
  nabla_write_summary summary;
  nabla_status status =
      nabla_checkpoint_open(in, environment, &checkpoint, diag);
  if (!status)
    status = nabla_plan_create(checkpoint, &options, environment, &plan, diag);
  if (!status)
    status =
        nabla_folder_create(checkpoint, plan, out, environment, &folder, diag);
  const nabla_write_options where = {.struct_size = sizeof where,
                                     .path = out,
                                     .force = force,
                                     .folder = folder};
  if (!status)
    status = nabla_plan_write(plan, &where, environment, &summary, diag);
  nabla_folder_destroy(folder);
  nabla_plan_destroy(plan);
  nabla_checkpoint_close(checkpoint);
  return status;
}

/* ---- what stands under the final name ------------------------------------ */

typedef enum outcome { ABSENT, OLD, COMPLETE, WRONG } outcome;

static size_t count(const char *folder, const char *name) {
  char path[512];
  join(path, folder, name);
  return model_count_names(path);
}

static int is_old(const char *name) {
  char path[512];
  size_t size;
  join(path, out, name);
  if (!model_exists(path)) return 0;
  uint8_t *content = model_slurp(path, &size);
  const int same = size == 3 && !memcmp(content, "old", 3);
  free(content);
  return same;
}

static outcome look(void) {
  char is[512], wanted[512];
  if (!model_exists(out)) return ABSENT;
  if (is_old("config.json"))
    return count(out, ".") == 2 && is_old("sub/deep/vocab.txt") ? OLD : WRONG;
  for (size_t i = 0; i < COUNT(written); i++) {
    join(is, out, written[i]);
    join(wanted, good, written[i]);
    if (!model_exists(is) || !model_same_files(is, wanted)) return WRONG;
  }
  return count(out, ".") == 4 && count(out, "sub") == 1 &&
                 count(out, "sub/deep") == 1
             ? COMPLETE
             : WRONG;
}

static void reset(outcome before) {
  if (model_exists(out)) model_remove_tree(out);
  if (before == ABSENT) return;
  make_folder(base.path, "out");
  make_folder(out, "sub");
  make_folder(out, "sub/deep");
  put(out, "config.json", "old");
  put(out, "sub/deep/vocab.txt", "old");
}

static void set_up(void) {
  static const model_tensor tensors[] = {
      {"a.up.weight", NABLA_DTYPE_F32, 2, {33, 64}, NULL},
      {"a.gate.weight", NABLA_DTYPE_F32, 2, {6, 64}, NULL},
      {"a.up.bias", NABLA_DTYPE_F32, 1, {33}, NULL}};
  char path[512];
  nabla_diag diag = NABLA_DIAG_INIT;
  const nabla_environment none = {.os = &quick};
  quick = *nabla_os_default();
  quick.sync = no_sync;
  temp_folder_create(&base);
  temp_folder_path(&base, "in", in);
  temp_folder_path(&base, "out", out);
  temp_folder_path(&base, "good", good);
  make_folder(base.path, "in");
  make_folder(in, "sub");
  make_folder(in, "sub/deep");
  join(path, in, "model.safetensors");
  model_write(path, tensors, COUNT(tensors));
  put(in, "config.json", "{\n  \"torch_dtype\": \"float32\"\n}\n");
  put(in, ".blob", "a tokenizer");
  put(in, "model.onnx", "weights");
  put(in, "sub/deep/vocab.txt", "words");
  join(path, in, "tokenizer.json");
  cr_assert_eq(symlink(".blob", path), 0);
  cr_assert_eq(quantize(0, &none, &diag), NABLA_OK, "%s", diag.what);
  cr_assert_eq(rename(out, good), 0);
}

static void tear_down(void) { model_remove_tree(base.path); }

TestSuite(folder_torture, .init = set_up, .fini = tear_down, .timeout = 300);

static size_t count_temporaries(void) {
  size_t found = 0;
  DIR *names = opendir(base.path);
  cr_assert_not_null(names);
  for (struct dirent *entry; (entry = readdir(names)) != NULL;)
    found += strstr(entry->d_name, ".nabla-") != NULL;
  closedir(names);
  return found;
}

static nabla_status try_once(outcome before, failing_allocator *allocator,
                             faulty_os *os) {
  nabla_diag diag = NABLA_DIAG_INIT;
  const nabla_environment environment = {.allocator = &allocator->allocator,
                                         .os = &os->os};
  reset(before);
  const nabla_status status = quantize(before == OLD, &environment, &diag);
  const outcome after = look();
  cr_assert_eq(diag.code, status, "%s", diag.what);
  if (status)
    cr_assert(after == before || (status == NABLA_IO && after == COMPLETE),
              "%s leaves outcome %d", diag.what, (int)after);
  else
    cr_assert_eq(after, COMPLETE, "outcome %d", (int)after);
  cr_assert_eq(count_temporaries(), 0, "%s", diag.what);
  cr_assert_eq(os->open_fds, 0, "%s", diag.what);
  cr_assert(failing_allocator_is_clean(allocator), "%s", diag.what);
  return status;
}

static const outcome earlier[] = {ABSENT, OLD};

ParameterizedTestParameters(folder_torture, every_allocation_fails_once) {
  static size_t rows[] = {0, 1};
  return cr_make_param_array(size_t, rows, COUNT(rows));
}

ParameterizedTest(size_t *row, folder_torture, every_allocation_fails_once) {
  for (size_t n = 1; n < MAX_STEPS; n++) {
    failing_allocator allocator;
    faulty_os os;
    failing_allocator_init(&allocator, n);
    faulty_os_init(&os, &quick);
    const nabla_status status = try_once(earlier[*row], &allocator, &os);
    if (allocator.failures == 0) {
      cr_assert_eq(status, NABLA_OK);
      figure_print("failed_allocations", *row ? "over_a_folder" : "new_folder",
                   n - 1);
      return;
    }
    cr_assert_eq(status, NABLA_NO_MEMORY, "allocation %zu", n);
  }
  cr_assert_fail("it does not end");
}

static const struct {
  int error;
  nabla_status status;
} errors[] = {{-EIO, NABLA_IO}, {-ENOSPC, NABLA_IO}, {-EINTR, NABLA_OK}};

ParameterizedTestParameters(folder_torture, every_call_fails_once) {
  static size_t rows[2 * COUNT(errors)];
  for (size_t i = 0; i < COUNT(rows); i++) rows[i] = i;
  return cr_make_param_array(size_t, rows, COUNT(rows));
}

ParameterizedTest(size_t *row, folder_torture, every_call_fails_once) {
  const size_t e = *row / 2;
  for (size_t n = 1; n < MAX_STEPS; n++) {
    failing_allocator allocator;
    faulty_os os;
    failing_allocator_init(&allocator, 0);
    faulty_os_init(&os, &quick);
    os.fail_at = n;
    os.error = errors[e].error;
    const nabla_status status = try_once(earlier[*row % 2], &allocator, &os);
    if (os.faults == 0) {
      cr_assert_eq(status, NABLA_OK);
      cr_expect_gt(n, 100u);
      if (e == 0)
        figure_print("failed_calls", *row ? "over_a_folder" : "new_folder",
                     n - 1);
      return;
    }
    if (status) cr_assert_eq(status, errors[e].status, "call %zu", n);
  }
  cr_assert_fail("it does not end");
}

ParameterizedTestParameters(folder_torture, full_disk) {
  static size_t rows[] = {0, 1};
  return cr_make_param_array(size_t, rows, COUNT(rows));
}

ParameterizedTest(size_t *row, folder_torture, full_disk) {
  for (uint64_t space = 0; space < 40000; space += 97) {
    failing_allocator allocator;
    faulty_os os;
    failing_allocator_init(&allocator, 0);
    faulty_os_init(&os, &quick);
    os.space = space;
    const nabla_status status = try_once(earlier[*row], &allocator, &os);
    if (!status) {
      cr_expect_gt(space, 1000u);
      return;
    }
    cr_assert_eq(status, NABLA_IO);
  }
  cr_assert_fail("it never fits");
}

Test(folder_torture, interrupted_and_short_transfers) {
  for (size_t i = 0; i < 2 * COUNT(earlier); i++) {
    failing_allocator allocator;
    faulty_os os;
    failing_allocator_init(&allocator, 0);
    faulty_os_init(&os, &quick);
    os.interrupt = i < 2;
    os.short_transfers = i >= 2;
    cr_assert_eq(try_once(earlier[i % 2], &allocator, &os), NABLA_OK);
  }
}
