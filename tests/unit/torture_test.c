/* Every allocation and every call of the operating system fails once, in each
 * operation on checkpoints: the status is right, nothing wrong stands under
 * the final name, nothing is left behind, nothing leaks. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nabla/measure.h"
#include "nabla/quantize.h"
#include "tests/support/failing_allocator.h"
#include "tests/support/faulty_os.h"
#include "tests/support/figure.h"
#include "tests/support/model.h"
#include "tests/support/temp_folder.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* More steps than any operation here takes. */
enum { MAX_STEPS = 5000 };

static temp_folder folder;
static char index_path[256], packed_path[256], out_file[256], out_folder[256];
static char good_file[256], good_folder[256], good_decoded[256];
static char rich_path[256], importance_path[256], varied_path[256];

/* Results of the operations that only look. */
static union {
  nabla_verify_summary verified;
  nabla_difference_summary compared;
  nabla_statistics statistics;
  size_t tensors;
} seen, expected;

/* The real system without waiting for the disk: there are thousands of runs.
 * That `sync` is called, and that its failure counts, still shows. */
static nabla_os quick;

static int no_sync(void *self, int fd) {
  (void)self, (void)fd;
  return 0;
}

/* ---- inputs -----------------------------------------------------------------
 */

static const char index_text[] =
    "{\"metadata\": {\"total_size\": 9228}, \"weight_map\": {\"a.weight\": "
    "\"m1.safetensors\", \"b.weight\": \"m2.safetensors\", \"c.bias\": "
    "\"m2.safetensors\"}}";

static void write_inputs(void) {
  static const model_tensor a[] = {
      {"a.weight", NABLA_DTYPE_F32, 2, {33, 64}, NULL}};
  static const model_tensor b[] = {
      {"b.weight", NABLA_DTYPE_F16, 2, {6, 64}, NULL},
      {"c.bias", NABLA_DTYPE_F32, 1, {3}, NULL}};
  char at[256];
  temp_folder_path(&folder, "m1.safetensors", at);
  model_write(at, a, 1);
  temp_folder_path(&folder, "m2.safetensors", at);
  model_write(at, b, 2);
  temp_folder_write(&folder, NABLA_INDEX_NAME, index_text,
                    sizeof index_text - 1);
}

/* What the variants below are made from: ranks 1 to 3, three dtypes. */
static void write_rich(void) {
  static const model_tensor tensors[] = {
      {"a.weight", NABLA_DTYPE_F32, 2, {33, 64}, NULL},
      {"e.weight", NABLA_DTYPE_BF16, 3, {3, 5, 24}, NULL},
      {"f.weight", NABLA_DTYPE_F64, 2, {5, 32}, NULL},
      {"c.bias", NABLA_DTYPE_F32, 1, {3}, NULL}};
  static float weights[64];
  for (size_t i = 0; i < COUNT(weights); i++) weights[i] = (float)(i % 5);
  const model_tensor importance[] = {
      {"a.weight", NABLA_DTYPE_F32, 1, {64}, weights},
      {"e.weight", NABLA_DTYPE_F32, 1, {24}, weights}};
  model_write(rich_path, tensors, COUNT(tensors));
  model_write(importance_path, importance, COUNT(importance));
}

/* ---- operations
 * --------------------------------------------------------------- */

static nabla_status quantize_from(const char *from, const char *to, int force,
                                  const nabla_environment *environment,
                                  nabla_diag *diag) {
  static const char *const skip[] = {"nothing"};
  const nabla_quantize_rule rule = {
      "b", nabla_encoding_find("int8"), {.block = 0}};
  const nabla_quantize_options options = {
      .struct_size = sizeof options,
      .encoding = nabla_encoding_find("nf4"),
      .nonfinite = NABLA_NONFINITE_KEEP, /* so that its pass is tried too */
      .skip = skip,
      .skip_count = 1,
      .rules = &rule,
      .rule_count = 1};
  const nabla_write_options where = {
      .struct_size = sizeof where, .path = to, .force = force};
  nabla_checkpoint *checkpoint = NULL;
  nabla_plan *plan = NULL;
  nabla_write_summary summary;
  nabla_status status =
      nabla_checkpoint_open(from, environment, &checkpoint, diag);
  if (!status)
    status = nabla_plan_create(checkpoint, &options, environment, &plan, diag);
  if (!status)
    status = nabla_plan_write(plan, &where, environment, &summary, diag);
  nabla_plan_destroy(plan);
  nabla_checkpoint_close(checkpoint);
  return status;
}

/* Ways to encode that take paths of their own. */
typedef struct variant {
  const char *encoding;
  nabla_settings settings;
  nabla_layout_choice layout;
  int is_weighted;
} variant;

static const variant nested = {
    "nf4",
    {.block = 64, .has_scale = 1, .scale = NABLA_SCALE_DYNAMIC8},
    NABLA_CHOOSE_BITSANDBYTES,
    0};
static const variant leading = {"int4",
                                {.block = 16,
                                 .has_scale = 1,
                                 .scale = NABLA_SCALE_DYNAMIC8,
                                 .zero_point = 1,
                                 .leading = 1},
                                NABLA_CHOOSE_NABLA,
                                0};
static const variant weighted = {
    "int8", {.block = 32, .zero_point = 1, .search = 1}, NABLA_CHOOSE_AUTO, 1};
static const variant whole = {
    "fp8", {.block = NABLA_BLOCK_TENSOR}, NABLA_CHOOSE_AUTO, 0};

static const variant *now; /* of the operation in work */

static nabla_status quantize_variant(const nabla_environment *e,
                                     nabla_diag *diag) {
  static const char *const skip[] = {"f.weight"}; /* not for bitsandbytes */
  nabla_quantize_options options = {
      .struct_size = sizeof options,
      .encoding = nabla_encoding_find(now->encoding),
      .settings = now->settings,
      .layout = now->layout,
      .skip = skip,
      .skip_count = now->layout == NABLA_CHOOSE_BITSANDBYTES};
  const nabla_write_options where = {.struct_size = sizeof where,
                                     .path = out_file};
  nabla_checkpoint *checkpoint = NULL, *importance = NULL;
  nabla_plan *plan = NULL;
  nabla_write_summary summary;
  nabla_status status = nabla_checkpoint_open(rich_path, e, &checkpoint, diag);
  if (!status && now->is_weighted)
    status = nabla_checkpoint_open(importance_path, e, &importance, diag);
  options.importance = importance;
  if (!status) status = nabla_plan_create(checkpoint, &options, e, &plan, diag);
  if (!status) status = nabla_plan_write(plan, &where, e, &summary, diag);
  nabla_plan_destroy(plan);
  nabla_checkpoint_close(importance);
  nabla_checkpoint_close(checkpoint);
  return status;
}

static nabla_status decode_file(const char *from, const nabla_environment *e,
                                nabla_diag *diag) {
  const nabla_dequantize_options options = {
      .struct_size = sizeof options, .has_dtype = 1, .dtype = NABLA_DTYPE_F32};
  const nabla_write_options where = {
      .struct_size = sizeof where, .path = out_file, .force = 0};
  nabla_checkpoint *checkpoint = NULL;
  nabla_write_summary summary;
  nabla_status status = nabla_checkpoint_open(from, e, &checkpoint, diag);
  if (!status)
    status = nabla_dequantize(checkpoint, &options, &where, e, &summary, diag);
  nabla_checkpoint_close(checkpoint);
  return status;
}

static nabla_status decode_variant(const nabla_environment *e,
                                   nabla_diag *diag) {
  return decode_file(varied_path, e, diag);
}

static nabla_status verify_variant(const nabla_environment *e,
                                   nabla_diag *diag) {
  return nabla_verify(varied_path, e, NULL, NULL, &seen.verified, diag);
}

static nabla_status to_file(const nabla_environment *e, nabla_diag *diag) {
  return quantize_from(index_path, out_file, 0, e, diag);
}

static nabla_status over_file(const nabla_environment *e, nabla_diag *diag) {
  return quantize_from(index_path, out_file, 1, e, diag);
}

static nabla_status to_folder(const nabla_environment *e, nabla_diag *diag) {
  return quantize_from(folder.path, out_folder, 0, e, diag);
}

static nabla_status over_folder(const nabla_environment *e, nabla_diag *diag) {
  return quantize_from(index_path, out_folder, 1, e, diag);
}

static nabla_status decode(const nabla_environment *e, nabla_diag *diag) {
  return decode_file(packed_path, e, diag);
}

static nabla_status open_only(const nabla_environment *e, nabla_diag *diag) {
  nabla_checkpoint *checkpoint = NULL;
  nabla_status status =
      nabla_checkpoint_open(good_folder, e, &checkpoint, diag);
  if (status)
    cr_expect_null(checkpoint);
  else
    seen.tensors = nabla_checkpoint_count(checkpoint);
  nabla_checkpoint_close(checkpoint);
  return status;
}

static nabla_status verify(const nabla_environment *e, nabla_diag *diag) {
  return nabla_verify(good_folder, e, NULL, NULL, &seen.verified, diag);
}

static nabla_status compare(const nabla_environment *e, nabla_diag *diag) {
  nabla_checkpoint *a = NULL, *b = NULL;
  nabla_status status = nabla_checkpoint_open(index_path, e, &a, diag);
  if (!status) status = nabla_checkpoint_open(good_folder, e, &b, diag);
  if (!status)
    status = nabla_compare(a, b, e, NULL, NULL, &seen.compared, diag);
  nabla_checkpoint_close(a);
  nabla_checkpoint_close(b);
  return status;
}

static nabla_status statistics(const nabla_environment *e, nabla_diag *diag) {
  nabla_checkpoint *checkpoint = NULL;
  nabla_status status =
      nabla_checkpoint_open(packed_path, e, &checkpoint, diag);
  if (!status)
    status = nabla_tensor_statistics(
        checkpoint, nabla_checkpoint_find(checkpoint, "a.weight", 8), e,
        &seen.statistics, diag);
  nabla_checkpoint_close(checkpoint);
  return status;
}

/* ---- what stands under the final name
 * -------------------------------------------- */

typedef enum outcome { ABSENT, OLD, COMPLETE, WRONG } outcome;

static int is_old(const char *path) {
  size_t size;
  uint8_t *content = model_slurp(path, &size);
  const int same = size == 3 && !memcmp(content, "old", 3);
  free(content);
  return same;
}

static outcome look_at_file(const char *good) {
  if (!model_exists(out_file)) return ABSENT;
  if (is_old(out_file)) return OLD;
  return model_same_files(out_file, good) ? COMPLETE : WRONG;
}

static outcome look_at_quantized(void) { return look_at_file(good_file); }
static outcome look_at_varied(void) { return look_at_file(varied_path); }
static outcome look_at_decoded(void) { return look_at_file(good_decoded); }

static void in_folder(const char *parent, const char *name, char *path) {
  const int length = snprintf(path, 512, "%s/%s", parent, name);
  cr_assert(length > 0 && length < 512);
}

static outcome look_at_folder(void) {
  static const char *const names[] = {"m1.safetensors", "m2.safetensors",
                                      NABLA_INDEX_NAME};
  char is[512], good[512];
  if (!model_exists(out_folder)) return ABSENT;
  in_folder(out_folder, NABLA_INDEX_NAME, is);
  if (model_exists(is) && is_old(is))
    return model_count_names(out_folder) == 1 ? OLD : WRONG;
  for (size_t i = 0; i < COUNT(names); i++) {
    in_folder(out_folder, names[i], is);
    in_folder(good_folder, names[i], good);
    if (!model_exists(is) || !model_same_files(is, good)) return WRONG;
  }
  return model_count_names(out_folder) == COUNT(names) ? COMPLETE : WRONG;
}

static outcome look_at_result(void) {
  return memcmp(&seen, &expected, sizeof seen) ? ABSENT : COMPLETE;
}

static void reset_file(void) { unlink(out_file); }

static void reset_old_file(void) {
  temp_folder_write(&folder, "out.safetensors", "old", 3);
}

static void reset_folder(void) {
  if (model_exists(out_folder)) model_remove_tree(out_folder);
}

static void reset_old_folder(void) {
  reset_folder();
  cr_assert_eq(mkdir(out_folder, 0777), 0);
  temp_folder_write(&folder, "out/model.safetensors.index.json", "old", 3);
}

static void reset_result(void) { memset(&seen, 0, sizeof seen); }

static const struct operation {
  const char *name;
  nabla_status (*run)(const nabla_environment *environment, nabla_diag *diag);
  void (*reset)(void);
  outcome (*look)(void);
  outcome before;
  uint32_t threads;
  const variant *variant; /* NULL: as in quantize_from */
} operations[] = {
    {"open", open_only, reset_result, look_at_result, ABSENT, 0, NULL},
    {"verify", verify, reset_result, look_at_result, ABSENT, 0, NULL},
    {"compare", compare, reset_result, look_at_result, ABSENT, 0, NULL},
    {"statistics", statistics, reset_result, look_at_result, ABSENT, 0, NULL},
    {"verify dynamic8", verify_variant, reset_result, look_at_result, ABSENT, 0,
     &nested},
    {"to file", to_file, reset_file, look_at_quantized, ABSENT, 0, NULL},
    {"to file, 3 threads", to_file, reset_file, look_at_quantized, ABSENT, 3,
     NULL},
    {"over file", over_file, reset_old_file, look_at_quantized, OLD, 0, NULL},
    {"to folder", to_folder, reset_folder, look_at_folder, ABSENT, 0, NULL},
    {"over folder", over_folder, reset_old_folder, look_at_folder, OLD, 0,
     NULL},
    {"decode", decode, reset_file, look_at_decoded, ABSENT, 0, NULL},
    {"dynamic8", quantize_variant, reset_file, look_at_varied, ABSENT, 0,
     &nested},
    {"leading blocks, zero points, dynamic8, 3 threads", quantize_variant,
     reset_file, look_at_varied, ABSENT, 3, &leading},
    {"search by importance", quantize_variant, reset_file, look_at_varied,
     ABSENT, 0, &weighted},
    {"one scale per tensor", quantize_variant, reset_file, look_at_varied,
     ABSENT, 0, &whole},
    {"decode dynamic8", decode_variant, reset_file, look_at_decoded, ABSENT, 0,
     &nested},
    {"decode leading blocks", decode_variant, reset_file, look_at_decoded,
     ABSENT, 0, &leading},
};

/* ---- set-up
 * -------------------------------------------------------------------- */

static void set_up(void) {
  nabla_diag diag = NABLA_DIAG_INIT;
  quick = *nabla_os_default();
  quick.sync = no_sync;
  const nabla_environment none = {.os = &quick};
  temp_folder_create(&folder);
  temp_folder_path(&folder, NABLA_INDEX_NAME, index_path);
  temp_folder_path(&folder, "out.safetensors", out_file);
  temp_folder_path(&folder, "out", out_folder);
  temp_folder_path(&folder, "good.st.safetensors", good_file);
  temp_folder_path(&folder, "good.decoded.safetensors", good_decoded);
  temp_folder_path(&folder, "good", good_folder);
  temp_folder_path(&folder, "rich.st.safetensors", rich_path);
  temp_folder_path(&folder, "importance.st.safetensors", importance_path);
  temp_folder_path(&folder, "varied.st.safetensors", varied_path);
  write_inputs();
  write_rich();
  cr_assert_eq(to_folder(&none, &diag), NABLA_OK, "%s", diag.what);
  cr_assert_eq(rename(out_folder, good_folder), 0);
  cr_assert_eq(to_file(&none, &diag), NABLA_OK, "%s", diag.what);
  cr_assert_eq(rename(out_file, good_file), 0);
  memcpy(packed_path, good_file, sizeof packed_path);
  cr_assert_eq(decode(&none, &diag), NABLA_OK, "%s", diag.what);
  cr_assert_eq(rename(out_file, good_decoded), 0);
}

static void tear_down(void) { model_remove_tree(folder.path); }

TestSuite(torture, .init = set_up, .fini = tear_down);

/* Hidden names are temporaries; ".old" ends one that was moved aside. */
static size_t count_temporaries(void) {
  size_t count = 0;
  DIR *names = opendir(folder.path);
  cr_assert_not_null(names);
  for (struct dirent *entry; (entry = readdir(names)) != NULL;)
    count += strstr(entry->d_name, ".nabla-") != NULL;
  closedir(names);
  return count;
}

/* Makes what a variant's operations are compared with. */
static void learn_variant(const nabla_environment *none) {
  nabla_diag diag = NABLA_DIAG_INIT;
  reset_file();
  cr_assert_eq(quantize_variant(none, &diag), NABLA_OK, "%s", diag.what);
  cr_assert_eq(rename(out_file, varied_path), 0);
  cr_assert_eq(decode_variant(none, &diag), NABLA_OK, "%s", diag.what);
  cr_assert_eq(rename(out_file, good_decoded), 0);
}

/* What the operation gives when nothing fails. */
static void learn(const struct operation *operation) {
  nabla_diag diag = NABLA_DIAG_INIT;
  const nabla_environment none = {.os = &quick};
  now = operation->variant;
  if (now) learn_variant(&none);
  operation->reset();
  cr_assert_eq(operation->run(&none, &diag), NABLA_OK, "%s: %s",
               operation->name, diag.what);
  expected = seen;
  cr_assert_eq(operation->look(), COMPLETE, "%s", operation->name);
}

/* One run; checks all that must hold whatever fails. */
static nabla_status try_once(const struct operation *operation,
                             failing_allocator *allocator, faulty_os *os) {
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_environment environment = {.allocator = &allocator->allocator,
                                   .os = &os->os};
  if (operation->threads)
    cr_assert_eq(
        nabla_pool_create(operation->threads, NULL, &environment.pool, &diag),
        NABLA_OK);
  operation->reset();
  const nabla_status status = operation->run(&environment, &diag);
  nabla_pool_destroy(environment.pool);
  const outcome after = operation->look();
  cr_assert_eq(diag.code, status, "%s: the diag has code %d, not %d",
               operation->name, (int)diag.code, (int)status);
  if (status)
    cr_assert(
        after == operation->before || (status == NABLA_IO && after == COMPLETE),
        "%s: %s leaves outcome %d", operation->name, diag.what, (int)after);
  else
    cr_assert_eq(after, COMPLETE, "%s: outcome %d", operation->name,
                 (int)after);
  cr_assert_eq(count_temporaries(), 0, "%s: %s", operation->name, diag.what);
  cr_assert_eq(os->open_fds, 0, "%s: %s", operation->name, diag.what);
  cr_assert(failing_allocator_is_clean(allocator), "%s: %s", operation->name,
            diag.what);
  return status;
}

ParameterizedTestParameters(torture, every_allocation_fails_once) {
  static size_t rows[COUNT(operations)];
  for (size_t i = 0; i < COUNT(operations); i++) rows[i] = i;
  return cr_make_param_array(size_t, rows, COUNT(operations));
}

ParameterizedTest(size_t *row, torture, every_allocation_fails_once) {
  const struct operation *operation = &operations[*row];
  learn(operation);
  for (size_t n = 1; n < MAX_STEPS; n++) {
    failing_allocator allocator;
    faulty_os os;
    failing_allocator_init(&allocator, n);
    faulty_os_init(&os, &quick);
    const nabla_status status = try_once(operation, &allocator, &os);
    if (allocator.failures == 0) {
      cr_assert_eq(status, NABLA_OK);
      cr_expect_gt(n, 5, "%s allocates", operation->name);
      figure_print("failed_allocations", operation->name, n - 1);
      return;
    }
    cr_assert_eq(status, NABLA_NO_MEMORY, "%s, allocation %zu", operation->name,
                 n);
  }
  cr_assert_fail("%s does not end", operation->name);
}

static const struct {
  int error;
  nabla_status status;
} errors[] = {{-EIO, NABLA_IO}, {-ENOSPC, NABLA_IO}, {-EINTR, NABLA_OK}};

ParameterizedTestParameters(torture, every_call_fails_once) {
  static size_t rows[COUNT(operations) * COUNT(errors)];
  for (size_t i = 0; i < COUNT(rows); i++) rows[i] = i;
  return cr_make_param_array(size_t, rows, COUNT(rows));
}

/* A call that fails without consequence (closing, cleaning up, asking for the
 * free space) may give success, which must then be complete. */
ParameterizedTest(size_t *row, torture, every_call_fails_once) {
  const struct operation *operation = &operations[*row / COUNT(errors)];
  const size_t e = *row % COUNT(errors);
  size_t failed = 0;
  learn(operation);
  for (size_t n = 1; n < MAX_STEPS; n++) {
    failing_allocator allocator;
    faulty_os os;
    failing_allocator_init(&allocator, 0);
    faulty_os_init(&os, &quick);
    os.fail_at = n;
    os.error = errors[e].error;
    const nabla_status status = try_once(operation, &allocator, &os);
    if (os.faults == 0) {
      cr_assert_eq(status, NABLA_OK);
      if (errors[e].status) cr_expect_gt(failed, 5, "%s", operation->name);
      if (e == 0) figure_print("failed_calls", operation->name, n - 1);
      return;
    }
    failed += status != NABLA_OK;
    if (status)
      cr_assert_eq(status, errors[e].status, "%s, call %zu: status %d",
                   operation->name, n, (int)status);
  }
  cr_assert_fail("%s does not end", operation->name);
}

ParameterizedTestParameters(torture, interrupted_and_short_transfers) {
  static size_t rows[COUNT(operations)];
  for (size_t i = 0; i < COUNT(operations); i++) rows[i] = i;
  return cr_make_param_array(size_t, rows, COUNT(operations));
}

ParameterizedTest(size_t *row, torture, interrupted_and_short_transfers) {
  const struct operation *operation = &operations[*row];
  learn(operation);
  for (int mode = 1; mode <= 3; mode++) {
    failing_allocator allocator;
    faulty_os os;
    failing_allocator_init(&allocator, 0);
    faulty_os_init(&os, &quick);
    os.interrupt = mode & 1;
    os.short_transfers = mode & 2;
    cr_assert_eq(try_once(operation, &allocator, &os), NABLA_OK, "%s, mode %d",
                 operation->name, mode);
  }
}

/* The operations that write an output. */
static struct criterion_test_params writers(void) {
  static size_t rows[COUNT(operations)];
  size_t count = 0;
  for (size_t i = 0; i < COUNT(operations); i++)
    if (operations[i].look != look_at_result) rows[count++] = i;
  return cr_make_param_array(size_t, rows, count);
}

/* From one write on, each moves nothing: that ends, with an error. */
ParameterizedTestParameters(torture, writes_that_move_nothing) {
  return writers();
}

ParameterizedTest(size_t *row, torture, writes_that_move_nothing,
                  .timeout = 60) {
  const struct operation *operation = &operations[*row];
  learn(operation);
  for (uint64_t from = 1; from <= 3; from++) {
    failing_allocator allocator;
    faulty_os os;
    failing_allocator_init(&allocator, 0);
    faulty_os_init(&os, &quick);
    os.zero_from = from;
    const nabla_status status = try_once(operation, &allocator, &os);
    const int reached = os.calls[FAULTY_PWRITE] >= from;
    cr_assert(reached || from > 1, "%s writes nothing", operation->name);
    cr_assert_eq(status, reached ? NABLA_IO : NABLA_OK, "%s, write %d: %d",
                 operation->name, (int)from, (int)status);
  }
}

/* The disk fills after any number of bytes; the space is asked for before. */
ParameterizedTestParameters(torture, full_disk) { return writers(); }

ParameterizedTest(size_t *row, torture, full_disk) {
  const struct operation *operation = &operations[*row];
  learn(operation);
  for (uint64_t space = 0; space < 40000; space += 397) {
    failing_allocator allocator;
    faulty_os os;
    failing_allocator_init(&allocator, 0);
    faulty_os_init(&os, &quick);
    os.space = space;
    const nabla_status status = try_once(operation, &allocator, &os);
    if (!status) {
      cr_expect_gt(space, 1000);
      return;
    }
    cr_assert_eq(status, NABLA_IO, "%s", operation->name);
  }
  cr_assert_fail("%s never fits", operation->name);
}

/* Whatever fails, the input is not replaced by the output. */
ParameterizedTestParameters(torture, the_input_survives) {
  static size_t rows[2 * COUNT(errors)];
  for (size_t i = 0; i < COUNT(rows); i++) rows[i] = i;
  return cr_make_param_array(size_t, rows, COUNT(rows));
}

ParameterizedTest(size_t *row, torture, the_input_survives) {
  const int is_folder = *row % 2 == 1;
  char copy[256], first[256];
  temp_folder_path(&folder, "copy.st", copy);
  temp_folder_path(&folder, "m1.safetensors", first);
  cr_assert_eq(link(first, copy), 0);
  for (size_t n = 1; n < MAX_STEPS; n++) {
    nabla_diag diag = NABLA_DIAG_INIT;
    faulty_os os;
    faulty_os_init(&os, &quick);
    os.fail_at = n;
    os.error = errors[*row / 2].error;
    const nabla_environment environment = {.os = &os.os};
    const nabla_status status =
        is_folder
            ? quantize_from(index_path, folder.path, 1, &environment, &diag)
            : quantize_from(first, first, 1, &environment, &diag);
    nabla_os_info is, was;
    cr_assert_eq(nabla_os_default()->path_info(NULL, first, 0, &is), 0);
    cr_assert_eq(nabla_os_default()->path_info(NULL, copy, 0, &was), 0);
    cr_assert_eq(is.inode, was.inode, "call %zu: %s", n, diag.what);
    cr_assert(status == NABLA_INVALID_ARGUMENT || status == NABLA_IO,
              "call %zu: status %d", n, (int)status);
    if (os.faults == 0) return;
  }
}
