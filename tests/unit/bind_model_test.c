/* Binding all weights of a model by name: what fits, what is missing, differs,
 * is unused, or is left for the runs; all of it is reported, and nothing is
 * bound when something does not fit. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "lib/runtime/program/code.h"
#include "lib/runtime/program/executable_internal.h"
#include "tests/support/failing_allocator.h"
#include "tests/support/model.h"
#include "tests/support/temp_folder.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define DENSE(name, shape) \
  "{\"name\":\"" name "\",\"dtype\":\"F32\",\"shape\":[" shape "]}"
#define PACKED(name)                                                         \
  "{\"name\":\"" name                                                        \
  "\",\"dtype\":\"F32\",\"shape\":[4,32],\"encoding\":\"nf4\","              \
  "\"granularity\":\"block\",\"block\":64,\"components\":[{\"name\":"        \
  "\"codes\",\"dtype\":\"U8\",\"bytes\":64},{\"name\":\"scales\",\"dtype\":" \
  "\"F32\",\"bytes\":8}]}"
#define PROGRAM(first, second)                                      \
  "{\"abi\":1,\"functions\":[{\"name\":\"f\",\"arguments\":[" first \
  "],\"results\":[]},{\"name\":\"g\",\"arguments\":[" second        \
  "],\"results"                                                     \
  "\":[]}]}"

static temp_folder folder;
static failing_allocator memory;
static nabla_environment environment;
static nabla_executable *executable;
static nabla_model *model;
static nabla_diag diag;
static char seen[1024];

static void do_nothing(const nabla_services *services, void *const *arguments,
                       void *const *results) {
  (void)services, (void)arguments, (void)results;
}

static nabla_entry_function look_up(void *self, const char *symbol) {
  (void)self, (void)symbol;
  return do_nothing;
}

static void set_up(void) {
  static const model_tensor tensors[] = {
      {"a", NABLA_DTYPE_F32, 2, {2, 3}, NULL},
      {"b", NABLA_DTYPE_F32, 1, {4}, NULL},
      {"c", NABLA_DTYPE_F32, 1, {5}, NULL},
  };
  char path[256];
  temp_folder_create(&folder);
  temp_folder_path(&folder, "m.safetensors", path);
  model_write(path, tensors, COUNT(tensors));
  failing_allocator_init(&memory, 0);
  environment.allocator = &memory.allocator;
  diag = (nabla_diag)NABLA_DIAG_INIT;
  cr_assert_eq(nabla_model_open(path, NULL, &model, &diag), 0);
}

static void tear_down(void) {
  nabla_executable_close(executable);
  nabla_model_close(model);
  cr_expect(failing_allocator_is_clean(&memory));
  temp_folder_destroy(&folder);
}

TestSuite(bind_model, .init = set_up, .fini = tear_down);

static void open_program(const char *manifest) {
  const nabla_code code = {NULL, manifest, look_up, NULL, 0};
  cr_assert_eq(nabla_executable_create(&code, &environment, &executable, &diag),
               0, "%s", diag.what);
}

static void note(void *self, nabla_bind_kind kind, const char *name,
                 size_t length, const char *what) {
  static const char *const words[] = {"bound", "missing", "differs", "input",
                                      "unused"};
  const size_t used = strlen(seen);
  (void)self;
  (void)snprintf(seen + used, sizeof seen - used, "%s %.*s%s%s; ", words[kind],
                 (int)length, name, *what ? ": " : "", what);
}

static nabla_status bind(nabla_bind_summary *out) {
  const nabla_bind_options options = {.struct_size = sizeof options,
                                      .report = note};
  seen[0] = '\0';
  return nabla_executable_bind_model(executable, model, &options, out, &diag);
}

static int is_bound(const char *function, size_t index) {
  const nabla_signature *f = nabla_executable_find(executable, function);
  return nabla_executable_binding(executable, &f->arguments[index])->is_bound;
}

Test(bind_model, all_that_fits_is_bound_in_all_functions) {
  nabla_bind_summary found;
  open_program(PROGRAM(DENSE("x", "null") "," DENSE("a", "2,3"),
                       DENSE("b", "4") "," DENSE("a", "null,3")));
  cr_assert_eq(bind(&found), NABLA_OK, "%s", diag.what);
  cr_expect_str_eq(seen, "input x; bound a; bound b; unused c; ");
  cr_expect_eq(found.counts[NABLA_BIND_BOUND], 2);
  cr_expect_eq(found.counts[NABLA_BIND_UNUSED], 1);
  cr_expect_eq(found.bound_bytes, 24 + 16);
  cr_expect(is_bound("f", 1) && is_bound("g", 0) && is_bound("g", 1));
  cr_expect_not(is_bound("f", 0));
}

Test(bind_model, all_that_does_not_fit_is_listed) {
  nabla_bind_summary found;
  open_program(PROGRAM(DENSE("a", "2,3") "," PACKED("w"),
                       DENSE("b", "3") "," PACKED("c")));
  cr_assert_eq(bind(&found), NABLA_INVALID_ARGUMENT);
  cr_expect_str_eq(
      seen,
      "bound a; missing w; differs b: argument 'b' takes F32 [3]; "
      "the weight is F32 [4]; differs c: argument 'c' takes nf4 in "
      "blocks of 64, [4,32]; the weight is F32 [5]; ");
  cr_expect_str_eq(diag.what,
                   "1 arguments have no tensor, 2 differ from theirs: 'w', "
                   "'b', 'c'");
  cr_expect_eq(found.counts[NABLA_BIND_DIFFERS], 2);
  cr_expect_not(is_bound("f", 0), "nothing is bound");
}

/* Weights of the caller's replace the tensors of their names. */
Test(bind_model, weights_of_the_options_replace_tensors) {
  static const uint8_t codes[64] = {0};
  static const float scales[2] = {1, 1};
  nabla_bind_summary found;
  const nabla_weight_desc weights[] = {
      {.name = "unused"},
      {.name = "b",
       .rank = 2,
       .shape = {4, 32},
       .dtype = NABLA_DTYPE_F32,
       .layout = {.kind = NABLA_STORAGE_PLANES,
                  .format = {.encoding = nabla_encoding_find("nf4"),
                             .block = 64}},
       .component_count = 2,
       .components = {{"codes", NABLA_DTYPE_U8, codes, sizeof codes},
                      {"scales", NABLA_DTYPE_F32, scales, sizeof scales}}}};
  const nabla_bind_options options = {.struct_size = sizeof options,
                                      .weights = weights,
                                      .weight_count = COUNT(weights)};
  open_program(PROGRAM(DENSE("a", "2,3") "," PACKED("b"), PACKED("b")));
  cr_expect_eq(bind(NULL), NABLA_INVALID_ARGUMENT, "the tensor is dense");
  cr_assert_eq(
      nabla_executable_bind_model(executable, model, &options, &found, &diag),
      0, "%s", diag.what);
  cr_expect_eq(found.counts[NABLA_BIND_BOUND], 2);
  cr_expect_eq(found.bound_bytes, 24 + sizeof codes + sizeof scales);
  cr_expect(is_bound("f", 0) && is_bound("f", 1) && is_bound("g", 0));
  const nabla_signature *g = nabla_executable_find(executable, "g");
  cr_expect_eq(nabla_executable_binding(executable, &g->arguments[0])->data[0],
               codes);
}

/* A second function may want another shape. */
Test(bind_model, every_function_is_checked) {
  open_program(PROGRAM(DENSE("a", "2,3"), DENSE("a", "3,2")));
  cr_expect_eq(bind(NULL), NABLA_INVALID_ARGUMENT);
  cr_expect_not(is_bound("f", 0));
}

Test(bind_model, what_was_bound_before_stays) {
  nabla_weight weight;
  open_program(PROGRAM(DENSE("x", "4"), ""));
  cr_assert_eq(nabla_model_find(model, "b", &weight, &diag), 0);
  cr_assert_eq(nabla_executable_bind(executable, "x", &weight.desc, &diag), 0);
  cr_expect_eq(bind(NULL), NABLA_OK);
  cr_expect_str_eq(seen, "bound x; unused a; unused b; unused c; ");
  cr_expect(is_bound("f", 0));
}

Test(bind_model, no_memory) {
  open_program(PROGRAM(DENSE("a", "2,3"), ""));
  memory.fail_at = memory.requests + 1;
  cr_expect_eq(bind(NULL), NABLA_NO_MEMORY);
  cr_expect_not(is_bound("f", 0));
}
