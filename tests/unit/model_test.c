/* Models: weights in place in a mapped file, copies of what lies badly, what
 * is refused, and every call and allocation failing once. */
#include "nabla/model.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/edit_distance.h"
#include "lib/runtime/program/mapping.h"
#include "nabla/quantize.h"
#include "tests/support/failing_allocator.h"
#include "tests/support/faulty_os.h"
#include "tests/support/memory_os.h"
#include "tests/support/model.h"
#include "tests/support/temp_folder.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static temp_folder folder;
static char dense_path[256], packed_path[256];
static nabla_diag diag;
static nabla_model *model;

static const model_tensor tensors[] = {
    {"layers.0.w1.weight", NABLA_DTYPE_F32, 2, {33, 64}, NULL},
    {"layers.10.w1.weight", NABLA_DTYPE_BF16, 2, {7, 48}, NULL},
    {"ids", NABLA_DTYPE_I64, 1, {5}, NULL},
    {"norm.bias", NABLA_DTYPE_F16, 1, {3}, NULL},
    {"none", NABLA_DTYPE_F32, 2, {0, 4}, NULL},
};

static void set_up(void) {
  temp_folder_create(&folder);
  temp_folder_path(&folder, "dense.safetensors", dense_path);
  temp_folder_path(&folder, "packed.safetensors", packed_path);
  model_write(dense_path, tensors, COUNT(tensors));
  diag = (nabla_diag)NABLA_DIAG_INIT;
}

static void tear_down(void) {
  nabla_model_close(model);
  model_remove_tree(folder.path);
}

TestSuite(model, .init = set_up, .fini = tear_down);

static void open_model(const char *path) {
  cr_assert_eq(nabla_model_open(path, NULL, &model, &diag), NABLA_OK, "%s",
               diag.what);
}

static nabla_status find(const char *name, nabla_weight *out) {
  diag = (nabla_diag)NABLA_DIAG_INIT;
  return nabla_model_find(model, name, out, &diag);
}

static nabla_weight weight_of(const char *name) {
  nabla_weight weight;
  cr_assert_eq(find(name, &weight), NABLA_OK, "%s: %s", name, diag.what);
  return weight;
}

/* A component has the bytes of a file tensor, at an address for its dtype. */
static void expect_component(const nabla_weight *weight, size_t index,
                             const char *name, const char *file_tensor) {
  const nabla_weight_component *part = &weight->desc.components[index];
  size_t size;
  void *bytes =
      model_bytes(nabla_model_borrow_checkpoint(model), file_tensor, &size);
  cr_expect_str_eq(part->name, name);
  cr_expect_eq(part->bytes, size, "%s", file_tensor);
  cr_expect(size == 0 || !memcmp(part->data, bytes, size), "%s", file_tensor);
  cr_expect_eq((uintptr_t)part->data % (nabla_dtype_bits(part->dtype) / 8), 0);
  free(bytes);
}

/* ---- in place ------------------------------------------------------------ */

Test(model, dense_weights_are_used_in_place) {
  open_model(dense_path);
  for (size_t i = 0; i < COUNT(tensors); i++) {
    const nabla_weight weight = weight_of(tensors[i].name);
    cr_expect_eq(weight.desc.component_count, 1);
    cr_expect_eq(weight.desc.components[0].dtype, tensors[i].dtype);
    cr_expect_eq(weight.copied_bytes, 0);
    expect_component(&weight, 0, "values", tensors[i].name);
  }
  cr_expect_eq(nabla_model_check_unchanged(model, &diag), NABLA_OK);
}

/* Every encoding in each layout that can hold it. */
typedef struct packing {
  const char *encoding;
  uint64_t block;
  nabla_layout_choice layout;
  const char *scales; /* name of the file tensor */
} packing;

#define NAME "layers.0.w1"
#define OURS NAME ".weight.nabla.scales"
static const packing packings[] = {
    {"nf4", 64, NABLA_CHOOSE_BITSANDBYTES, NAME ".weight.absmax"},
    {"fp4", 128, NABLA_CHOOSE_BITSANDBYTES, NAME ".weight.absmax"},
    {"int8", 0, NABLA_CHOOSE_BITSANDBYTES, NAME ".SCB"},
    {"nf4", 16, NABLA_CHOOSE_NABLA, OURS},
    {"fp4", 32, NABLA_CHOOSE_NABLA, OURS},
    {"int8", 64, NABLA_CHOOSE_NABLA, OURS},
    {"int8", 0, NABLA_CHOOSE_NABLA, OURS},
};

static void write_packed(const packing *how, const char *path) {
  static const char *const only[] = {"w1"};
  const nabla_quantize_options options = {
      .struct_size = sizeof options,
      .encoding = nabla_encoding_find(how->encoding),
      .settings = {.block = how->block},
      .layout = how->layout,
      .only = only,
      .only_count = 1};
  model_quantize(dense_path, path, &options);
}

static struct criterion_test_params every_packing(void) {
  static size_t numbers[COUNT(packings)];
  for (size_t i = 0; i < COUNT(packings); i++) numbers[i] = i;
  return cr_make_param_array(size_t, numbers, COUNT(packings));
}

ParameterizedTestParameters(model, packed_weights_are_used_in_place) {
  return every_packing();
}
ParameterizedTest(size_t *number, model, packed_weights_are_used_in_place) {
  const packing *how = &packings[*number];
  write_packed(how, packed_path);
  open_model(packed_path);
  const nabla_weight weight = weight_of("layers.0.w1.weight");
  cr_expect_str_eq(weight.tensor.format.encoding->name, how->encoding);
  cr_assert_eq(weight.desc.component_count, 2);
  cr_expect_eq(weight.copied_bytes, 0);
  expect_component(&weight, 0, "codes", "layers.0.w1.weight");
  expect_component(&weight, 1, "scales", how->scales);
  nabla_packed_size size;
  cr_assert_eq(nabla_format_size(&weight.tensor.format, 33 * 64, &size, &diag),
               0);
  cr_expect_eq(weight.desc.components[0].bytes, size.code_bytes);
  cr_expect_eq(weight.desc.components[1].bytes, size.scales * sizeof(float));
  cr_expect_eq(weight.desc.components[1].dtype, NABLA_DTYPE_F32);
  cr_expect_eq(nabla_dtype_bits(weight.desc.components[0].dtype), 8);
}

Test(model, shards_are_mapped_each) {
  static const char index[] =
      "{\"metadata\": {}, \"weight_map\": {\"a\": \"1.safetensors\", "
      "\"b\": \"2.safetensors\"}}";
  const model_tensor a = {"a", NABLA_DTYPE_F32, 1, {9}, NULL};
  const model_tensor b = {"b", NABLA_DTYPE_F64, 1, {2}, NULL};
  char path[256];
  temp_folder_path(&folder, "1.safetensors", path);
  model_write(path, &a, 1);
  temp_folder_path(&folder, "2.safetensors", path);
  model_write(path, &b, 1);
  temp_folder_write(&folder, NABLA_INDEX_NAME, index, sizeof index - 1);
  open_model(folder.path);
  const nabla_weight first = weight_of("a"), second = weight_of("b");
  expect_component(&first, 0, "values", "a");
  expect_component(&second, 0, "values", "b");
  cr_expect_eq(first.copied_bytes + second.copied_bytes, 0);
}

/* ---- copies -------------------------------------------------------------- */

/* With 0 to 7 spaces behind it, data begins at every remainder of 8. */
static const char odd_json[] =
    "{\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
    "\"f\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[3,19]},"
    "\"h\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[19,23]}}  ";

Test(model, misaligned_weights_are_copied_once) {
  static char json[256];
  for (size_t pad = 0; pad < 8; pad++) {
    (void)snprintf(json, sizeof json, "%s%*s", odd_json, (int)pad, "");
    temp_folder_write_safetensors(&folder, "odd.safetensors", json, 23);
    char path[256];
    temp_folder_path(&folder, "odd.safetensors", path);
    open_model(path);
    const size_t start = 8 + strlen(json);
    const nabla_weight bytes = weight_of("b"), floats = weight_of("f"),
                       halves = weight_of("h"), again = weight_of("f");
    cr_expect_eq(bytes.copied_bytes, 0);
    cr_expect_eq(floats.copied_bytes, (start + 3) % 4 ? 16u : 0u, "pad %zu",
                 pad);
    cr_expect_eq(halves.copied_bytes, (start + 19) % 2 ? 4u : 0u);
    cr_expect_eq(again.copied_bytes, floats.copied_bytes);
    cr_expect_eq(again.desc.components[0].data, floats.desc.components[0].data);
    expect_component(&bytes, 0, "values", "b");
    expect_component(&floats, 0, "values", "f");
    expect_component(&halves, 0, "values", "h");
    nabla_model_close(model);
    model = NULL;
  }
}

Test(model, files_of_another_system_are_read) {
  memory_os files;
  size_t size;
  uint8_t *bytes = model_slurp(dense_path, &size);
  memory_os_init(&files, 0);
  memory_os_put(&files, "/m.safetensors", bytes, size);
  const nabla_environment environment = {.os = &files.os};
  cr_assert_eq(nabla_model_open("/m.safetensors", &environment, &model, &diag),
               0, "%s", diag.what);
  for (size_t i = 0; i < COUNT(tensors); i++) {
    const nabla_weight weight = weight_of(tensors[i].name);
    cr_expect_eq(weight.copied_bytes, weight.tensor.stored_bytes);
    expect_component(&weight, 0, "values", tensors[i].name);
  }
  nabla_model_close(model);
  model = NULL;
  cr_expect(memory_os_destroy(&files));
  free(bytes);
}

/* ---- refusals ------------------------------------------------------------ */

static const struct {
  const char *wanted, *next;
} typos[] = {
    {"layers.0.w1.weihgt", "did you mean 'layers.0.w1.weight'?"},
    {"layers.1.w1.weight", "did you mean 'layers.0.w1.weight'?"},
    {"norm", "did you mean 'norm.bias'?"},
    {"model.norm.bias", "did you mean 'norm.bias'?"},
    {"id", "did you mean 'ids'?"},
    {"completely different", "nabla-quant inspect lists its tensors"},
    {"", "nabla-quant inspect lists its tensors"},
};

Test(model, a_name_that_is_not_there_gets_the_nearest) {
  open_model(dense_path);
  for (size_t i = 0; i < COUNT(typos); i++) {
    nabla_weight weight = {.copied_bytes = 7};
    cr_expect_eq(find(typos[i].wanted, &weight), NABLA_INVALID_ARGUMENT);
    cr_expect_str_eq(diag.next, typos[i].next);
    cr_expect_str_eq(diag.tensor, typos[i].wanted);
    cr_expect_eq(weight.copied_bytes, 7, "outputs stay as they were");
  }
}

Test(model, a_search_for_the_nearest_ends) {
  static char names[2][4000];
  memset(names[0], 'a', sizeof names[0]);
  memset(names[1], 'b', sizeof names[1]);
  nabla_nearest nearest = nabla_nearest_begin(names[0], sizeof names[0]);
  const uint64_t begin = nearest.work;
  for (size_t i = 0; i < 2000000; i++)
    nabla_nearest_offer(&nearest, names[1], sizeof names[1]);
  cr_expect_null(nearest.best);
  cr_expect_lt(nearest.work, begin / 100);
  nabla_nearest_say(&nearest, &diag, "nothing is near");
  cr_expect_str_eq(diag.next, "nothing is near");
}

Test(model, what_cannot_be_decoded_is_refused) {
  static const char format[] =
      "{\"version\": 1, \"encoding\": \"nf3\", \"block\": 64, \"scale\": "
      "\"F32\", \"dtype\": \"F16\", \"shape\": [4, 32]}";
  const model_tensor parts[] = {
      {"w", NABLA_DTYPE_U8, 1, {64}, NULL},
      {"w.nabla.scales", NABLA_DTYPE_F32, 1, {2}, NULL},
      {"w.nabla.format", NABLA_DTYPE_U8, 1, {sizeof format - 1}, format}};
  model_write(packed_path, parts, COUNT(parts));
  open_model(packed_path);
  nabla_weight weight;
  cr_expect_eq(find("w", &weight), NABLA_UNSUPPORTED);
  cr_expect_str_eq(diag.tensor, "w");
  cr_expect(strstr(diag.what, "nf3") != NULL, "%s", diag.what);
}

Test(model, files_that_change_are_noticed) {
  open_model(dense_path);
  FILE *file = fopen(dense_path, "ab");
  cr_assert(file && fputc(0, file) != EOF && !fclose(file));
  cr_expect_eq(nabla_model_check_unchanged(model, &diag), NABLA_CORRUPT);
  nabla_os_info info;
  const nabla_os *os = nabla_os_default();
  cr_assert_geq(os->path_info(os->self, dense_path, 1, &info), 0);
  nabla_mapping mapping = {0};
  cr_expect_eq(nabla_mapping_open(dense_path, &info, &mapping, &diag), 0);
  nabla_mapping_close(&mapping);
  info.inode++;
  cr_expect_eq(nabla_mapping_open(dense_path, &info, &mapping, &diag),
               NABLA_CORRUPT);
  cr_expect_null(mapping.data);
  cr_expect_eq(nabla_mapping_open("/does/not/exist", &info, &mapping, &diag),
               NABLA_IO);
}

Test(model, closing_nothing_is_allowed) { nabla_model_close(NULL); }

/* ---- failures ------------------------------------------------------------ */

static nabla_status use(const nabla_environment *environment) {
  nabla_model *opened = NULL;
  nabla_weight weight;
  nabla_status status =
      nabla_model_open(dense_path, environment, &opened, &diag);
  for (size_t i = 0; i < COUNT(tensors) && !status; i++)
    status = nabla_model_find(opened, tensors[i].name, &weight, &diag);
  nabla_model_close(opened);
  return status;
}

Test(model, every_allocation_fails_once) {
  faulty_os reading; /* not the default: components are allocated */
  faulty_os_init(&reading, NULL);
  nabla_status status = NABLA_NO_MEMORY;
  for (size_t at = 1; status && at < 1000; at++) {
    failing_allocator failing;
    failing_allocator_init(&failing, at);
    const nabla_environment environment = {.allocator = &failing.allocator,
                                           .os = &reading.os};
    status = use(&environment);
    cr_expect_eq(status, failing.failures ? NABLA_NO_MEMORY : NABLA_OK,
                 "allocation %zu", at);
    cr_expect(failing_allocator_is_clean(&failing), "allocation %zu", at);
  }
  cr_expect_eq(status, NABLA_OK);
  cr_expect_eq(reading.open_fds, 0);
}

Test(model, every_system_call_fails_once) {
  nabla_status status = NABLA_IO;
  for (uint64_t at = 1; status && at < 1000; at++) {
    faulty_os faulty;
    faulty_os_init(&faulty, NULL);
    faulty.fail_at = at;
    const nabla_environment environment = {.os = &faulty.os};
    status = use(&environment);
    if (faulty.calls[FAULTY_CLOSE] && faulty.faults && !status) {
      status = NABLA_IO; /* close may fail: nothing is lost */
    } else {
      cr_expect_eq(status, faulty.faults ? NABLA_IO : NABLA_OK, "call %d",
                   (int)at);
    }
    cr_expect_eq(faulty.open_fds, 0);
  }
  cr_expect_eq(status, NABLA_OK);
}
