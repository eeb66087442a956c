/* The importance of columns: one weight for each value of any range, in the
 * order of the columns, whatever the row length; bad ones are named. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "quant/plan/plan.h"
#include "tests/support/model.h"
#include "tests/support/temp_folder.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

enum { TILE = 8192, COLUMNS = 10000 };

static temp_folder folder;
static char model[256], weights[256];
static nabla_diag diag;
static nabla_checkpoint *checkpoint, *importance;
static nabla_plan *plan;
static nabla_scratch scratch;
static float values[COLUMNS];

static const model_tensor tensors[] = {
    {"wide.weight", NABLA_DTYPE_F32, 2, {3, COLUMNS}, NULL},
    {"narrow.weight", NABLA_DTYPE_F32, 2, {70, 24}, NULL},
    {"deep.weight", NABLA_DTYPE_F32, 3, {2, 5, 16}, NULL},
    {"one.weight", NABLA_DTYPE_F32, 2, {100, 1}, NULL},
    {"plain.weight", NABLA_DTYPE_F32, 2, {4, 64}, NULL},
};
static const uint64_t columns[] = {COLUMNS, 24, 16, 1};

static void set_up(void) {
  temp_folder_create(&folder);
  temp_folder_path(&folder, "model.safetensors", model);
  temp_folder_path(&folder, "weights.safetensors", weights);
  diag = (nabla_diag)NABLA_DIAG_INIT;
  model_write(model, tensors, COUNT(tensors));
  for (size_t i = 0; i < COLUMNS; i++) values[i] = (float)(i * 7 % 1009) / 8;
  cr_assert_eq(nabla_scratch_create(NULL, TILE, &scratch, NULL), NABLA_OK);
}

static void tear_down(void) {
  nabla_scratch_destroy(NULL, &scratch);
  nabla_plan_destroy(plan);
  nabla_checkpoint_close(importance);
  nabla_checkpoint_close(checkpoint);
  plan = NULL;
  importance = checkpoint = NULL;
  model_remove_tree(folder.path);
}

TestSuite(importance, .init = set_up, .fini = tear_down);

/* For all tensors but the last, from `values`. */
static void write_weights(void) {
  model_tensor rows[COUNT(columns)];
  for (size_t i = 0; i < COUNT(rows); i++)
    rows[i] = (model_tensor){
        tensors[i].name, NABLA_DTYPE_F32, 1, {columns[i]}, values};
  model_write(weights, rows, COUNT(rows));
}

static nabla_status make_plan(int search) {
  checkpoint = model_open(model);
  importance = model_open(weights);
  const nabla_quantize_options options = {
      .struct_size = sizeof options,
      .encoding = nabla_encoding_find("nf4"),
      .settings = {.search = search},
      .importance = importance,
      .layout = NABLA_CHOOSE_NABLA};
  return nabla_plan_create(checkpoint, &options, NULL, &plan, &diag);
}

static uint64_t find(const char *name) {
  const size_t index = nabla_checkpoint_find(checkpoint, name, strlen(name));
  cr_assert_neq(index, SIZE_MAX);
  return index;
}

static nabla_status read(const char *name, uint64_t first, uint64_t count,
                         const float **out) {
  return nabla_importance_read(plan, find(name), first, count, &scratch, out,
                               &diag);
}

Test(importance, every_range_repeats_the_columns) {
  static const uint64_t firsts[] = {0, 64, 4096, 9984};
  static const uint64_t counts[] = {1, 16, 23, 64, 100, 4096, TILE};
  write_weights();
  cr_assert_eq(make_plan(1), NABLA_OK, "%s", diag.what);
  cr_expect_eq(nabla_plan_get_totals(plan).weighted, COUNT(columns));
  for (size_t t = 0; t < COUNT(columns); t++)
    for (size_t f = 0; f < COUNT(firsts); f++)
      for (size_t c = 0; c < COUNT(counts); c++) {
        const float *got;
        cr_assert_eq(read(tensors[t].name, firsts[f], counts[c], &got),
                     NABLA_OK, "%s", diag.what);
        cr_assert_not_null(got);
        for (uint64_t i = 0; i < counts[c]; i++)
          cr_assert_float_eq(got[i], values[(firsts[f] + i) % columns[t]], 0,
                             "%s, %lu + %lu", tensors[t].name,
                             (unsigned long)firsts[f], (unsigned long)i);
      }
}

Test(importance, a_weight_without_one_is_not_weighted) {
  const float *got = values;
  write_weights();
  cr_assert_eq(make_plan(1), NABLA_OK, "%s", diag.what);
  cr_expect_eq(read("plain.weight", 0, 64, &got), NABLA_OK);
  cr_expect_null(got);
  cr_expect_eq(nabla_plan_get(plan, find("plain.weight")).has_importance, 0);
  cr_expect_eq(nabla_plan_get(plan, find("wide.weight")).has_importance, 1);
}

Test(importance, without_a_search_it_is_refused) {
  write_weights();
  cr_expect_eq(make_plan(0), NABLA_INVALID_ARGUMENT);
  cr_expect_not_null(strstr(diag.what, "no search"), "%s", diag.what);
}

Test(importance, bad_values_are_named) {
  static const float bad[] = {NAN, INFINITY, -INFINITY, -1, -0x1p-149f};
  static const char *const shown[] = {"nan", "inf", "-inf", "-1", "-1.4"};
  for (size_t i = 0; i < COUNT(bad); i++) {
    char what[64];
    const float *got;
    values[5] = bad[i];
    write_weights();
    diag = (nabla_diag)NABLA_DIAG_INIT;
    cr_assert_eq(make_plan(1), NABLA_OK, "%s", diag.what);
    cr_expect_eq(read("narrow.weight", 24 + 6, 17, &got), NABLA_OK,
                 "columns 6 to 22 are good");
    cr_expect_eq(read("narrow.weight", 48 + 22, 10, &got),
                 NABLA_INVALID_ARGUMENT);
    snprintf(what, sizeof what, "the importance at index 5 is %s", shown[i]);
    cr_expect_eq(strncmp(diag.what, what, strlen(what)), 0, "%s", diag.what);
    cr_expect_str_eq(diag.file, weights);
    cr_expect_str_eq(diag.tensor, "narrow.weight");
    tear_down();
    set_up();
  }
  values[5] = -0.0f; /* not negative */
  const float *got;
  write_weights();
  cr_assert_eq(make_plan(1), NABLA_OK);
  cr_expect_eq(read("narrow.weight", 0, 64, &got), NABLA_OK);
}

Test(importance, the_form_must_fit) {
  static const struct {
    model_tensor tensor;
    const char *what;
  } bad[] = {
      {{"narrow.weight", NABLA_DTYPE_F32, 1, {23}, NULL}, "23 elements"},
      {{"narrow.weight", NABLA_DTYPE_F32, 1, {70}, NULL}, "70 elements"},
      {{"narrow.weight", NABLA_DTYPE_F32, 2, {1, 24}, NULL}, "rank 2"},
      {{"narrow.weight", NABLA_DTYPE_F16, 1, {24}, NULL}, "F16"},
      {{"narrow.weight", NABLA_DTYPE_F32, 0, {0}, NULL}, "rank 0"},
      {{"narrow.weight", NABLA_DTYPE_I32, 1, {24}, NULL}, "I32"},
  };
  for (size_t i = 0; i < COUNT(bad); i++) {
    model_write(weights, &bad[i].tensor, 1);
    diag = (nabla_diag)NABLA_DIAG_INIT;
    cr_expect_eq(make_plan(1), NABLA_INVALID_ARGUMENT, "%zu", i);
    cr_expect_null(plan);
    cr_expect_not_null(strstr(diag.what, bad[i].what), "%s", diag.what);
    cr_expect_not_null(strstr(diag.what, "rank 1 and 24"), "%s", diag.what);
    tear_down();
    set_up();
  }
}
