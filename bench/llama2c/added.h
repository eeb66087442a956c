/* What run.c of llama2.c gets from Nabla: matrix products by plans, dense in
 * the mapped file or packed in memory at their first use, and a forward pass by
 * a saved program. docs/ENGINE.md explains it. */
#include <stdint.h>

#include "nabla/decoder.h"
#include "nabla/matmul.h"

static struct {
  const char *encoding, *program, *model; /* -e, -P, -M */
  int threads;                            /* -j */
  nabla_pool *pool;
  /* plans are used in the same order for each token */
  struct {
    const float *w;
    nabla_matmul_plan *plan;
  } plans[4096];
  size_t count, next;
  void *workspace;
  uint64_t workspace_bytes;
  nabla_session *session;
  float *logits;
} added = {.threads = 1};

static void or_exit(nabla_status status, const nabla_diag *diag) {
  char text[1024];
  if (!status) return;
  (void)nabla_diag_format(diag, text, sizeof text);
  (void)fprintf(stderr, "%s\n", text);
  exit(EXIT_FAILURE);
}

/* Packs w in blocks of 32 with f16 scales, in memory that stays. */
static nabla_status pack(nabla_weight_desc *weight, nabla_diag *diag) {
  const float *w = weight->components[0].data;
  const uint64_t count = weight->shape[0] * weight->shape[1];
  nabla_packed out = {0};
  nabla_codec codec;
  weight->layout =
      (nabla_storage){.kind = NABLA_STORAGE_PLANES,
                      .format = {nabla_encoding_find(added.encoding),
                                 .block = 32, .scale = NABLA_SCALE_F16}};
  if (!weight->layout.format.encoding)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "-e '%.40s' is no encoding",
                      added.encoding);
  NABLA_TRY(nabla_codec_select(&weight->layout.format, NULL, &codec, diag));
  NABLA_TRY(nabla_weight_components(weight, weight->components,
                                    &weight->component_count, diag));
  for (uint32_t i = 0; i < 2; i++) {
    void *data =
        aligned_alloc(64, (weight->components[i].bytes + 63) / 64 * 64);
    if (!data) return nabla_fail(diag, NABLA_NO_MEMORY, "out of memory");
    weight->components[i].data = data;
    if (i)
      out.scales = data;
    else
      out.codes = data;
  }
  return nabla_encode(&codec, w, NULL, count, &out, NULL, diag);
}

/* Makes the plan of w (d x n), and room for its runs. */
static nabla_status add_plan(const float *w, int n, int d, nabla_diag *diag) {
  nabla_weight_desc weight = {
      .rank = 2,
      .shape = {(uint64_t)d, (uint64_t)n},
      .dtype = NABLA_DTYPE_F32,
      .component_count = 1,
      .components = {{.data = w, .bytes = sizeof *w * (size_t)d * (size_t)n}}};
  if (added.count == sizeof added.plans / sizeof *added.plans)
    return nabla_fail(diag, NABLA_TOO_LARGE, "too many weights");
  if (!added.pool)
    NABLA_TRY(
        nabla_pool_create((uint32_t)added.threads, NULL, &added.pool, diag));
  if (added.encoding) NABLA_TRY(pack(&weight, diag));
  const nabla_matmul_options options = {.struct_size = sizeof options,
                                        .m_max = 1,
                                        .environment = {.pool = added.pool}};
  nabla_matmul_plan *plan;
  NABLA_TRY(nabla_matmul_plan_create(&weight, &options, &plan, diag));
  const uint64_t bytes = nabla_matmul_plan_workspace_size(plan, 1);
  if (bytes > added.workspace_bytes) {
    free(added.workspace);
    added.workspace = aligned_alloc(64, added.workspace_bytes = bytes);
    if (!added.workspace)
      return nabla_fail(diag, NABLA_NO_MEMORY, "out of memory");
  }
  added.plans[added.count].w = w;
  added.plans[added.count++].plan = plan;
  return NABLA_OK;
}

/* xout = w x, in place of the loops of matmul. */
static void multiply(float *xout, const float *x, const float *w, int n,
                     int d) {
  nabla_diag diag = NABLA_DIAG_INIT;
  size_t i = added.next;
  if (i >= added.count || added.plans[i].w != w)
    for (i = 0; i < added.count && added.plans[i].w != w;) i++;
  if (i == added.count) or_exit(add_plan(w, n, d, &diag), &diag);
  added.next = i + 1;
  or_exit(nabla_matmul_plan_run(added.plans[i].plan, x, 1, xout,
                                added.workspace, &diag),
          &diag);
}

static nabla_status open_program(int vocabulary, nabla_diag *diag) {
  nabla_decoder_limits limits;
  nabla_executable *executable;
  nabla_model *model;
  if (!added.pool)
    NABLA_TRY(
        nabla_pool_create((uint32_t)added.threads, NULL, &added.pool, diag));
  const nabla_environment environment = {.pool = added.pool};
  NABLA_TRY(
      nabla_executable_open(added.program, &environment, &executable, diag));
  NABLA_TRY(nabla_model_open(added.model, NULL, &model, diag));
  NABLA_TRY(nabla_executable_bind_model(executable, model, NULL, NULL, diag));
  NABLA_TRY(nabla_decoder_find_limits(executable, &limits, diag));
  if (limits.vocabulary != (uint64_t)vocabulary)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "the checkpoint has %d tokens, the program %llu",
                      vocabulary, (unsigned long long)limits.vocabulary);
  added.logits = calloc(limits.vocabulary, sizeof(float));
  if (!added.logits) return nabla_fail(diag, NABLA_NO_MEMORY, "out of memory");
  return nabla_session_create(executable, NULL, &added.session, diag);
}

/* The logits behind `token`, in place of the forward pass. */
static float *run_program(int token, int position, int vocabulary) {
  const int64_t id = token;
  nabla_diag diag = NABLA_DIAG_INIT;
  if (!added.session) or_exit(open_program(vocabulary, &diag), &diag);
  or_exit(nabla_decoder_run(added.session, &id, 1, (uint64_t)position,
                            added.logits, (size_t)vocabulary, &diag),
          &diag);
  return added.logits;
}
