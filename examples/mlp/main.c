/* A network of three layers in a safetensors file, computed with dense weights
 * and with the same weights in NF4, by one traced function:
 *
 *   mlp [FILE]   (default: mlp.safetensors, which is made if it is missing) */
#include <math.h>
#include <stdio.h>

#include "nabla/function.h"

enum { IN = 256, WIDE = 512, OUT = 64, LAYERS = 3 };

typedef struct layer {
  nabla_array *w, *b;
} layer;

typedef struct mlp {
  layer layers[LAYERS];
} mlp;

static const nabla_tree_member layer_members[] = {NABLA_TREE_MEMBER(layer, w),
                                                  NABLA_TREE_MEMBER(layer, b)};
static const nabla_tree_layout layer_layout = NABLA_TREE_LAYOUT(layer);
static const nabla_tree_member mlp_members[] = {
    NABLA_TREE_MEMBER_STRUCT(mlp, layers, layer_layout)};
static const nabla_tree_layout mlp_layout = NABLA_TREE_LAYOUT(mlp);

static const int64_t sizes[LAYERS + 1] = {IN, WIDE, WIDE, OUT};

/* Random weights, of the same file for everyone. */
static nabla_status make_file(nabla_scope *scope, const char *path,
                              nabla_diag *diag) {
  mlp net;
  nabla_tree tree = nabla_tree_of_struct(&mlp_layout, &net);
  for (int i = 0; i < LAYERS; i++) {
    const int64_t shape[2] = {sizes[i + 1], sizes[i]};
    nabla_array *w =
        nabla_normal(nabla_integer(scope, i), NABLA_DTYPE_F32, 2, shape);
    net.layers[i].w =
        nabla_mul(w, nabla_scalar(scope, sqrt(2.0 / (double)sizes[i])));
    net.layers[i].b = nabla_zeros(scope, NABLA_DTYPE_F32, 1, shape);
  }
  return nabla_tree_write(&tree, path, 0, NULL, diag);
}

/* The traced function: the arguments are a list of the network and x. */
static void forward(nabla_scope *scope, const nabla_tree *in, nabla_tree *out,
                    void *self) {
  (void)scope, (void)self;
  const mlp *net = in->items[0].data;
  nabla_array *x = in->items[1].array;
  for (int i = 0; i < LAYERS; i++) {
    x = nabla_linear(x, net->layers[i].w, net->layers[i].b);
    if (i < LAYERS - 1) x = nabla_gelu(x);
  }
  out->array = x;
}

static nabla_status run(nabla_function *function, mlp *net, nabla_array *x,
                        nabla_array **out, nabla_diag *diag) {
  nabla_tree items[2] = {nabla_tree_of_struct(&mlp_layout, net),
                         nabla_tree_of_array(x)};
  const nabla_tree in = nabla_tree_of_list(2, items);
  nabla_tree result = nabla_tree_of_array(NULL);
  const nabla_status status = nabla_function_call(function, &in, &result, diag);
  *out = result.array;
  return status;
}

/* Quantizes the weights, and leaves the biases. */
static nabla_status quantize(nabla_scope *scope, const mlp *net, mlp *out,
                             nabla_diag *diag) {
  const nabla_storage nf4 = {
      .kind = NABLA_STORAGE_PLANES,
      .format = {.encoding = nabla_encoding_find("nf4"), .block = 64}};
  nabla_array *weights[LAYERS];
  *out = *net;
  for (int i = 0; i < LAYERS; i++)
    weights[i] = out->layers[i].w = nabla_quantize(net->layers[i].w, &nf4);
  return nabla_realize(scope, LAYERS, weights, diag);
}

/* |a - b| / |a| of all elements. */
static nabla_status compare(nabla_array *a, nabla_array *b, float *out,
                            nabla_diag *diag) {
  nabla_array *d = nabla_sub(a, b);
  nabla_array *error =
      nabla_sqrt(nabla_div(nabla_mean(nabla_mul(d, d), NABLA_ALL_DIMS, 0),
                           nabla_mean(nabla_mul(a, a), NABLA_ALL_DIMS, 0)));
  nabla_dense value;
  const nabla_status status = nabla_array_read(error, &value, diag);
  if (!status) *out = *(const float *)value.data;
  return status;
}

static nabla_status work(nabla_scope *scope, nabla_function *function,
                         const char *path, nabla_diag *diag) {
  mlp net = {.layers = {{NULL, NULL}}}, packed;
  nabla_tree tree = nabla_tree_of_struct(&mlp_layout, &net);
  nabla_status status = make_file(scope, path, diag);
  if (!status || status == NABLA_EXISTS)
    status = nabla_tree_read(scope, path, NULL, &tree, diag);
  if (!status) status = quantize(scope, &net, &packed, diag);
  for (int64_t batch = 1; batch <= 16 && !status; batch *= 4) {
    const int64_t shape[2] = {batch, IN};
    nabla_array *x =
        nabla_normal(nabla_integer(scope, 9), NABLA_DTYPE_F32, 2, shape);
    nabla_array *dense, *nf4;
    float error = 0;
    status = run(function, &net, x, &dense, diag);
    if (!status) status = run(function, &packed, x, &nf4, diag);
    if (!status) status = compare(dense, nf4, &error, diag);
    if (!status)
      printf("batch %2d: error of NF4 %.3f\n", (int)batch, (double)error);
  }
  return status;
}

int main(int argc, char **argv) {
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_engine *engine = NULL;
  nabla_scope *scope = NULL;
  nabla_function *function = NULL;
  static const nabla_function_dim dims[] = {{"1", 0, "batch"}};
  const nabla_function_options options = {.struct_size = sizeof options,
                                          .name = "mlp",
                                          .dims = dims,
                                          .dim_count = 1};
  nabla_function_statistics counts = {.struct_size = sizeof counts};
  nabla_status status = nabla_engine_create(NULL, NULL, &engine, &diag);
  if (!status) status = nabla_scope_create(engine, &scope, &diag);
  if (!status)
    status = nabla_function_create(engine, forward, &options, &function, &diag);
  if (!status)
    status =
        work(scope, function, argc > 1 ? argv[1] : "mlp.safetensors", &diag);
  if (!status) status = nabla_function_count(function, &counts, &diag);
  if (status)
    fprintf(stderr, "mlp: %s\n", diag.what);
  else
    printf("traced %d times, found %d times\n", (int)counts.misses,
           (int)counts.hits);
  nabla_function_destroy(function);
  nabla_scope_end(scope);
  nabla_engine_destroy(engine);
  return status != NABLA_OK;
}
