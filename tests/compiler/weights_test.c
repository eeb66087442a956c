/* Weights that a caller describes, bound to compiled programs: blocks of GGUF
 * files in every format, multiplied (against f64) and decoded (bit for bit),
 * compiled in the process and saved. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nabla/compiler.h"
#include "tests/support/product.h"
#include "tests/support/temp_folder.h"

enum { N = 12, M = 3 };

static nabla_diag diag;
static nabla_compiler *compiler;
static temp_folder folder;

static void set_up(void) {
  const nabla_compiler_options options = {.struct_size = sizeof options,
                                          .cache = ""};
  diag = (nabla_diag)NABLA_DIAG_INIT;
  cr_assert_eq(nabla_compiler_create(&options, NULL, &compiler, &diag),
               NABLA_OK);
  temp_folder_create(&folder);
}

static void tear_down(void) {
  nabla_compiler_destroy(compiler);
  temp_folder_destroy(&folder);
}

TestSuite(weights, .init = set_up, .fini = tear_down, .timeout = 300);

static const nabla_ggml *format_at(size_t number) {
  size_t ignored;
  return &nabla_ggml_formats(&ignored)[number];
}

static struct criterion_test_params every_format(void) {
  static size_t numbers[64];
  size_t count;
  (void)nabla_ggml_formats(&count);
  for (size_t i = 0; i < count; i++) numbers[i] = i;
  return cr_make_param_array(size_t, numbers, count);
}

/* A product with w, and w decoded: two functions, one weight. */
static void write_program(char *out, size_t size, const char *name,
                          uint64_t k) {
  (void)snprintf(
      out, size,
      "!w = !nabla.implicit<%dx%llux"
      "f32, #nabla.ggml<%s>>\n"
      "func.func @product(%%x: tensor<?x%llux"
      "f32>, %%w: !w {nabla.name = "
      "\"w\"}) -> tensor<?x%dxf32> {\n"
      "  %%y = nabla.dot_general %%x, %%w contracting = [1] x [1]"
      " : tensor<?x%llux"
      "f32>, !w\n"
      "  return %%y : tensor<?x%dxf32>\n"
      "}\n"
      "func.func @dense(%%w: !w {nabla.name = \"w\"}) -> tensor<%dx%llux"
      "f32> {\n"
      "  %%d = nabla.materialize %%w : !w\n"
      "  return %%d : tensor<%dx%lluxf32>\n"
      "}\n",
      N, (unsigned long long)k, name, (unsigned long long)k, N,
      (unsigned long long)k, N, N, (unsigned long long)k, N,
      (unsigned long long)k);
}

static nabla_executable *compile(const char *text) {
  nabla_executable *out = NULL;
  cr_assert_eq(nabla_compile_text(compiler, text, strlen(text), "w.mlir", NULL,
                                  &out, &diag),
               NABLA_OK, "%s", diag.what);
  return out;
}

static nabla_status write_to(void *self, const void *data, size_t size,
                             nabla_diag *into) {
  (void)into;
  return fwrite(data, 1, size, self) == size ? NABLA_OK : NABLA_IO;
}

/* The same from a saved program. */
static nabla_executable *save_and_open(const char *text) {
  char path[256];
  temp_folder_path(&folder, "w.so", path);
  FILE *file = fopen(path, "wb");
  cr_assert(file != NULL);
  const nabla_sink sink = {.self = file, .write = write_to};
  cr_assert_eq(nabla_emit_text(compiler, text, strlen(text), "w.mlir", NULL,
                               NABLA_EMIT_SO, &sink, &diag),
               NABLA_OK, "%s", diag.what);
  cr_assert_eq(fclose(file), 0);
  nabla_executable *out = NULL;
  cr_assert_eq(nabla_executable_open(path, NULL, &out, &diag), NABLA_OK, "%s",
               diag.what);
  (void)remove(path);
  return out;
}

static void expect_port(const nabla_executable *executable,
                        const nabla_ggml *ggml) {
  char name[32];
  const nabla_signature *f = nabla_executable_find(executable, "product");
  cr_assert(f != NULL && f->argument_count == 2);
  const nabla_port *port = &f->arguments[1];
  (void)snprintf(name, sizeof name, "ggml<%s>", ggml->name);
  cr_expect_str_eq(port->encoding_name, name);
  cr_expect_eq(port->layout.kind, NABLA_STORAGE_BLOCKS);
  cr_expect_eq(port->layout.ggml, ggml);
  cr_expect_eq(port->component_count, 1);
}

/* Both functions give what they should of the weight that is bound. */
static void expect_runs(nabla_executable *executable, const product *p,
                        const char *name) {
  const uint64_t k = p->weight.shape[1];
  guarded_bytes x = product_x(p, M, NABLA_DTYPE_F32, 5);
  const nabla_dense in = {x.data, NABLA_DTYPE_F32, 2, {M, (int64_t)k}};
  nabla_dense y = {0}, dense = {0};
  cr_assert_eq(
      nabla_executable_run(executable, "product", &in, 1, &y, 1, &diag),
      NABLA_OK, "%s: %s", name, diag.what);
  const product_run run = {.x = x.data,
                           .y = y.data,
                           .x_type = NABLA_DTYPE_F32,
                           .y_type = NABLA_DTYPE_F32,
                           .m = M,
                           .chain = k};
  cr_expect_eq(product_count_wrong(p, &run), 0, "%s", name);
  cr_assert_eq(
      nabla_executable_run(executable, "dense", NULL, 0, &dense, 1, &diag),
      NABLA_OK, "%s: %s", name, diag.what);
  cr_expect(!memcmp(dense.data, p->dense, (size_t)(N * k) * sizeof(float)),
            "%s", name);
  nabla_dense_release(executable, &y);
  nabla_dense_release(executable, &dense);
  guarded_bytes_destroy(&x);
}

static void expect_program(nabla_executable *executable,
                           const nabla_ggml *ggml) {
  expect_port(executable, ggml);
  for (int at_start = 0; at_start < 2; at_start++) {
    const product_shape shape = {.ggml = ggml,
                                 .n = N,
                                 .k = 2 * (uint64_t)ggml->elements,
                                 .at_start = at_start};
    product p = product_create(&shape);
    cr_assert_eq(nabla_executable_bind(executable, "w", &p.weight, &diag),
                 NABLA_OK, "%s", diag.what);
    expect_runs(executable, &p, ggml->name);
    product_destroy(&p);
  }
  nabla_executable_close(executable);
}

ParameterizedTestParameters(weights, blocks_are_bound) {
  return every_format();
}
ParameterizedTest(size_t *number, weights, blocks_are_bound) {
  const nabla_ggml *ggml = format_at(*number);
  char text[1024];
  write_program(text, sizeof text, ggml->name, 2 * (uint64_t)ggml->elements);
  expect_program(compile(text), ggml);
  if (*number == 0) expect_program(save_and_open(text), ggml);
}

/* ---- what does not fit
 * ------------------------------------------------------- */

static void expect_refused(nabla_executable *executable,
                           const nabla_weight_desc *weight, const char *text) {
  diag = (nabla_diag)NABLA_DIAG_INIT;
  cr_expect_eq(nabla_executable_bind(executable, "w", weight, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, text), "'%s' is not in '%s'", text, diag.what);
}

Test(weights, other_blocks_are_refused) {
  const nabla_ggml *ggml = nabla_ggml_find("q4_0");
  const product_shape shape = {.ggml = ggml, .n = N, .k = 64},
                      nf4 = {.format = {.encoding = nabla_encoding_find("nf4"),
                                        .block = 64},
                             .n = N,
                             .k = 64};
  char text[1024];
  write_program(text, sizeof text, "q4_0", 64);
  nabla_executable *executable = compile(text);
  product p = product_create(&shape), other = product_create(&nf4);
  nabla_weight_desc w = p.weight;
  nabla_dense d = {0};
  cr_expect_eq(nabla_executable_run(executable, "dense", NULL, 0, &d, 1, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect_str_eq(diag.next, "bind a weight that is blocks of q4_0, [12,64]");
  w.layout.ggml = nabla_ggml_find("iq4_nl"); /* of the same size */
  expect_refused(executable, &w,
                 "takes blocks of q4_0, [12,64]; the weight is blocks of "
                 "iq4_nl, [12,64]");
  w = p.weight;
  w.shape[0] = 24;
  w.shape[1] = 32;
  expect_refused(executable, &w, "blocks of q4_0, [24,32]");
  w = p.weight;
  w.components[0].bytes--;
  expect_refused(executable, &w,
                 "the blocks have 431 bytes, and the shape "
                 "needs 432");
  expect_refused(executable, &other.weight, "the weight is nf4 in blocks");
  product_destroy(&p);
  product_destroy(&other);
  nabla_executable_close(executable);
}
