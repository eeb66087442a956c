/* Trains adapters beside a model of two layers whose weights are NF4, with
 * AdamW, and writes the losses as a picture and the adapters as a file:
 *
 *   train [PREFIX]   (default: train; makes PREFIX.svg, PREFIX.safetensors) */
#include <math.h>
#include <stdio.h>

#include "train.h"

/* The packed weights, adapters for them, and a teacher whose weights differ. */
static void make(nabla_scope *s, base *w, base *teacher, training *now) {
  const nabla_storage nf4 = {
      .kind = NABLA_STORAGE_PLANES,
      .format = {.encoding = nabla_encoding_find("nf4"), .block = 64}};
  for (int i = 0; i < LAYERS; i++) {
    const int64_t shape[2] = {sizes[i + 1], sizes[i]};
    nabla_array *seed = nabla_integer(s, i), *a, *b;
    nabla_array *dense =
        nabla_mul(nabla_normal(seed, NABLA_DTYPE_F32, 2, shape),
                  nabla_scalar(s, sqrt(2.0 / (double)sizes[i])));
    w->w[i] = nabla_quantize(dense, &nf4);
    nabla_lora_init(w->w[i], nabla_integer(s, 2 + i), RANK, &now->p.a[i],
                    &now->p.b[i]);
    nabla_lora_init(w->w[i], nabla_integer(s, 4 + i), RANK, &a, &b);
    b = nabla_normal(nabla_integer(s, 6 + i), NABLA_DTYPE_F32, 2,
                     (const int64_t[]){sizes[i + 1], RANK});
    teacher->w[i] = nabla_lora_merge(w->w[i], a, b, .1);
    now->m.a[i] = nabla_zeros_like(now->p.a[i]),
    now->v.a[i] = nabla_zeros_like(now->p.a[i]);
    now->m.b[i] = nabla_zeros_like(now->p.b[i]),
    now->v.b[i] = nabla_zeros_like(now->p.b[i]);
  }
  now->t = nabla_zeros(s, NABLA_DTYPE_F32, 0, NULL);
}

/* All steps, whose losses become points of a picture of 500 x 200. */
static nabla_status train(nabla_scope *s, nabla_function *function, FILE *svg,
                          training *now, base *w, const base *teacher,
                          nabla_diag *diag) {
  float first = 0;
  fprintf(svg,
          "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 500 200'>\n"
          "<polyline fill='none' stroke='black' points='");
  for (int i = 0; i < STEPS; i++) {
    nabla_array *x = nabla_normal(nabla_integer(s, 100 + i), NABLA_DTYPE_F32, 2,
                                  (const int64_t[]){BATCH, sizes[0]});
    nabla_tree items[4] = {nabla_tree_of_struct(&training_layout, now),
                           nabla_tree_of_struct(&base_layout, w),
                           nabla_tree_of_array(x),
                           nabla_tree_of_array(model(x, teacher, NULL))};
    nabla_tree results[2] = {nabla_tree_of_array(NULL), items[0]};
    const nabla_tree in = nabla_tree_of_list(4, items);
    nabla_tree out = nabla_tree_of_list(2, results);
    nabla_dense value;
    nabla_status status = nabla_function_call(function, &in, &out, diag);
    if (!status) status = nabla_array_read(results[0].array, &value, diag);
    if (status) return status;
    const float l = *(const float *)value.data;
    if (!i) first = l;
    fprintf(svg, " %d,%.2f", 10 * i, 200 - 190 * (double)(l / first));
    if (i % 10 == 0 || i == STEPS - 1)
      printf("step %2d: loss %.4f\n", i, (double)l);
  }
  fprintf(svg, "'/>\n</svg>\n");
  return NABLA_OK;
}

/* FNV-1a of the bytes of the packed weights. */
static nabla_status hash(const base *w, uint64_t *out, nabla_diag *diag) {
  *out = 0xcbf29ce484222325;
  for (int i = 0; i < LAYERS; i++) {
    nabla_weight_desc desc;
    const nabla_status status = nabla_array_weight(w->w[i], &desc, diag);
    if (status) return status;
    for (uint32_t c = 0; c < desc.component_count; c++)
      for (uint64_t k = 0; k < desc.components[c].bytes; k++)
        *out = (*out ^ ((const uint8_t *)desc.components[c].data)[k]) *
               0x100000001b3;
  }
  return NABLA_OK;
}

static nabla_status run(nabla_scope *s, nabla_function *function,
                        const char *prefix, nabla_diag *diag) {
  char path[2][200];
  base w, teacher;
  training now;
  uint64_t before = 0, after = 0;
  const nabla_tree trained = nabla_tree_of_struct(&adapters_layout, &now.p);
  (void)snprintf(path[0], sizeof path[0], "%s.svg", prefix);
  (void)snprintf(path[1], sizeof path[1], "%s.safetensors", prefix);
  FILE *svg = fopen(path[0], "w");
  if (!svg) {
    (void)snprintf(diag->what, sizeof diag->what, "cannot write %s", path[0]);
    return NABLA_IO;
  }
  make(s, &w, &teacher, &now);
  nabla_status status = hash(&w, &before, diag);
  if (!status) status = train(s, function, svg, &now, &w, &teacher, diag);
  if (fclose(svg) && !status) status = NABLA_IO;
  if (!status) status = hash(&w, &after, diag);
  if (!status) status = nabla_tree_write(&trained, path[1], 1, NULL, diag);
  if (!status) printf("base %s\n", before == after ? "as it was" : "CHANGED");
  return status;
}

int main(int argc, char **argv) {
  /* every argument that a step replaces gives its memory to the result; an
   * operation that would decode a packed weight as a whole is an error */
#define STEP(name) {"0." name, "1." name}
#define STEPS_OF(x) \
  STEP(x ".a.0"), STEP(x ".a.1"), STEP(x ".b.0"), STEP(x ".b.1")
  static const nabla_function_replacement donated[] = {
      STEPS_OF("p"), STEPS_OF("m"), STEPS_OF("v"), STEP("t")};
  const nabla_compile_options compile = {
      .struct_size = sizeof compile, .target = "x86-64-v3", .policy = "error"};
  const nabla_engine_options how = {.struct_size = sizeof how,
                                    .compile = &compile};
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_engine *engine = NULL;
  nabla_scope *scope = NULL;
  nabla_function *of_loss = NULL, *gradient = NULL, *of_step = NULL;
  nabla_status status = nabla_engine_create(&how, NULL, &engine, &diag);
  if (!status) status = nabla_scope_create(engine, &scope, &diag);
  if (!status)
    status = nabla_function_create(engine, loss, NULL, &of_loss, &diag);
  if (!status) status = nabla_value_and_grad(of_loss, NULL, &gradient, &diag);
  const nabla_function_options options = {
      .struct_size = sizeof options,
      .name = "step",
      .self = gradient,
      .donated = donated,
      .donated_count = sizeof donated / sizeof *donated};
  if (!status)
    status = nabla_function_create(engine, step, &options, &of_step, &diag);
  if (!status)
    status = run(scope, of_step, argc > 1 ? argv[1] : "train", &diag);
  if (status) fprintf(stderr, "train: %s\n", diag.what);
  nabla_function_destroy(of_step);
  nabla_function_destroy(gradient);
  nabla_function_destroy(of_loss);
  nabla_scope_end(scope);
  nabla_engine_destroy(engine);
  return status != NABLA_OK;
}
