/* ggml, the library below llama.cpp: y = x W^T as a graph of one node. A format
 * is the name of a type of ggml ("q4_0", "f32"), stored as llama.cpp stores it
 * for this CPU: repacked where it has a kernel for that; "NAME-amx" is the same
 * in the layout for AMX. PEER_VERSION is the version of what holds the source.
 */
#include <stdio.h>
#include <string.h>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"
#include "peer.h"

#define STRING_OF(x) #x
#define STRING(x)    STRING_OF(x)

enum { ROWS = 64 }; /* quantized; the rest of the weight repeats them */

static struct {
  ggml_backend_t backend;
  ggml_backend_dev_t device;
  struct ggml_context *context;
  struct ggml_cgraph **graphs;
  const char *layout;
} self = {.layout = "none yet"};

/* Only what is on, and has to do with speed. */
static void add_features(char *out, size_t size) {
  ggml_backend_reg_t reg = ggml_backend_cpu_reg();
  ggml_backend_get_features_t features =
      (ggml_backend_get_features_t)ggml_backend_reg_get_proc_address(
          reg, "ggml_backend_get_features");
  if (!features) return;
  for (struct ggml_backend_feature *f = features(reg); f->name; f++) {
    size_t used = strlen(out);
    if (!strcmp(f->value, "1"))
      snprintf(out + used, size - used, " %s", f->name);
  }
}

void peer_describe(char *out, size_t size) {
  snprintf(out, size, "ggml %s of llama-cpp-python %s,", ggml_version(),
           STRING(PEER_VERSION));
  add_features(out, size);
  size_t used = strlen(out);
  if (self.backend)
    snprintf(out + used, size - used, ", weights in %s", self.layout);
}

static enum ggml_type find_type(const char *name, size_t length) {
  for (int i = 0; i < GGML_TYPE_COUNT; i++) {
    const char *one = ggml_type_name((enum ggml_type)i);
    if (!one || strlen(one) != length) continue;
    size_t at = 0; /* some have capitals */
    while (at < length && (one[at] | 0x20) == (name[at] | 0x20)) at++;
    if (at == length) return (enum ggml_type)i;
  }
  return GGML_TYPE_COUNT;
}

static ggml_backend_buffer_type_t find_extra(const char *name) {
  ggml_backend_dev_get_extra_bufts_t list =
      (ggml_backend_dev_get_extra_bufts_t)ggml_backend_reg_get_proc_address(
          ggml_backend_cpu_reg(), "ggml_backend_dev_get_extra_bufts");
  if (!list) return NULL;
  for (ggml_backend_buffer_type_t *at = list(self.device); *at; at++)
    if (!strcmp(ggml_backend_buft_name(*at), name)) return *at;
  return NULL;
}

/* Whether a product can have its weight in `kind`; as llama.cpp asks. */
static int can_be_in(ggml_backend_buffer_type_t kind, struct ggml_tensor *w,
                     struct ggml_tensor *node) {
  w->buffer = ggml_backend_buft_alloc_buffer(kind, 0);
  if (!w->buffer) return 0;
  int result = ggml_backend_dev_supports_op(self.device, node);
  ggml_backend_buffer_free(w->buffer);
  w->buffer = NULL;
  return result;
}

static int choose_layout(int amx, struct ggml_tensor *w,
                         struct ggml_tensor *node,
                         ggml_backend_buffer_type_t *out) {
  ggml_backend_buffer_type_t kind = find_extra(amx ? "AMX" : "CPU_REPACK");
  if (kind && !can_be_in(kind, w, node)) kind = NULL;
  if (!kind && amx) return 0;
  *out = kind ? kind : ggml_backend_cpu_buffer_type();
  self.layout = ggml_backend_buft_name(*out);
  return 1;
}

/* The bytes of a weight before any layout. */
static void make_weight(enum ggml_type type, const peer_problem *p,
                        uint8_t *out) {
  const uint64_t rows = p->n < ROWS ? p->n : ROWS;
  const size_t row = ggml_row_size(type, (int64_t)p->k);
  float *values = peer_memory((size_t)(rows * p->k) * sizeof(float));
  peer_fill_floats(values, (size_t)(rows * p->k));
  if (type == GGML_TYPE_F32)
    memcpy(out, values, rows * row);
  else
    ggml_quantize_chunk(type, values, out, 0, (int64_t)rows, (int64_t)p->k,
                        NULL);
  for (uint64_t i = rows; i < p->n; i++)
    memcpy(out + i * row, out + (i - rows) * row, row);
}

/* ggml tells of every weight that it repacks. */
static void say_nothing(enum ggml_log_level level, const char *text,
                        void *unused) {
  (void)level, (void)text, (void)unused;
}

static int start(const peer_problem *p) {
  ggml_log_set(say_nothing, NULL);
  struct ggml_threadpool_params params =
      ggml_threadpool_params_default((int)p->threads);
  ggml_backend_t backend = ggml_backend_cpu_init();
  struct ggml_threadpool *pool = ggml_threadpool_new(&params);
  if (!backend || !pool) return 0;
  ggml_backend_cpu_set_n_threads(backend, (int)p->threads);
  ggml_backend_cpu_set_threadpool(backend, pool);
  self.backend = backend;
  self.device = ggml_backend_get_device(backend);
  return 1;
}

/* x and one y; all products write there. */
static int place_dense(const peer_problem *p, struct ggml_tensor *x,
                       struct ggml_tensor **nodes) {
  ggml_backend_buffer_t dense = ggml_backend_buft_alloc_buffer(
      ggml_backend_cpu_buffer_type(),
      ggml_nbytes(x) + ggml_nbytes(nodes[0]) + 4096);
  if (!dense) return 0;
  char *base = ggml_backend_buffer_get_base(dense);
  const size_t y = (ggml_nbytes(x) + 4095) / 4096 * 4096 - 2048;
  if (ggml_backend_tensor_alloc(dense, x, base)) return 0;
  for (uint32_t i = 0; i < p->copies; i++)
    if (ggml_backend_tensor_alloc(dense, nodes[i], base + y + 2048)) return 0;
  peer_fill_floats((float *)x->data, (size_t)(p->m * p->k));
  return 1;
}

/* Products in self.context; weights in a context of their own, because they are
 * allocated together. */
static int build(const peer_problem *p, enum ggml_type type, int amx,
                 struct ggml_context *weights) {
  struct ggml_tensor **w = peer_memory(p->copies * sizeof(void *));
  struct ggml_tensor **nodes = peer_memory(p->copies * sizeof(void *));
  struct ggml_tensor *x = ggml_new_tensor_2d(self.context, GGML_TYPE_F32,
                                             (int64_t)p->k, (int64_t)p->m);
  ggml_backend_buffer_type_t kind;
  self.graphs = peer_memory(p->copies * sizeof(void *));
  for (uint32_t i = 0; i < p->copies; i++) {
    w[i] = ggml_new_tensor_2d(weights, type, (int64_t)p->k, (int64_t)p->n);
    nodes[i] = ggml_mul_mat(self.context, w[i], x);
    self.graphs[i] = ggml_new_graph_custom(self.context, 8, false);
    ggml_build_forward_expand(self.graphs[i], nodes[i]);
  }
  if (!choose_layout(amx, w[0], nodes[0], &kind) ||
      !ggml_backend_alloc_ctx_tensors_from_buft(weights, kind) ||
      !place_dense(p, x, nodes))
    return 0;
  uint8_t *plain = peer_memory(ggml_nbytes(w[0]));
  make_weight(type, p, plain);
  for (uint32_t i = 0; i < p->copies; i++)
    ggml_backend_tensor_set(w[i], plain, 0, ggml_nbytes(w[i]));
  return 1;
}

int peer_open(const peer_problem *p, uint64_t *out_bytes, char *why,
              size_t size) {
  const char *end = strstr(p->format, "-amx");
  const size_t length = end ? (size_t)(end - p->format) : strlen(p->format);
  const enum ggml_type type = find_type(p->format, length);
  if (type == GGML_TYPE_COUNT) {
    snprintf(why, size, "it has no %s", p->format);
    return 0;
  }
  if (p->k % (uint64_t)ggml_blck_size(type)) {
    snprintf(why, size, "K is no multiple of %lld",
             (long long)ggml_blck_size(type));
    return 0;
  }
  struct ggml_init_params small = {
      .mem_size = (size_t)p->copies * (ggml_tensor_overhead() * 2 +
                                       ggml_graph_overhead_custom(8, false)) +
                  ggml_tensor_overhead() * 8,
      .no_alloc = true};
  struct ggml_context *weights = ggml_init(small);
  self.context = ggml_init(small);
  if (!weights || !self.context || !start(p)) {
    snprintf(why, size, "ggml does not start");
    return 0;
  }
  if (!build(p, type, end != NULL, weights)) {
    snprintf(why, size, "it has no such layout, or no memory");
    return 0;
  }
  *out_bytes = ggml_row_size(type, (int64_t)p->k) * p->n;
  return 1;
}

int peer_run(uint32_t copy) {
  return ggml_backend_graph_compute(self.backend, self.graphs[copy]) ==
         GGML_STATUS_SUCCESS;
}
