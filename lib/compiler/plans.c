/* The provider of compiled kernels for plans: code for exactly the shape, made
 * once for each kind of product in the process. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/isa.h"
#include "lib/base/thread.h"
#include "lib/compiler/jit.h"
#include "lib/compiler/kernels.h"
#include "lib/kernels/builder/text.h"
#include "lib/runtime/matmul/provider.h"
#include "nabla/compiler.h"

/* Code of one spec; the list keeps it, and each plan that uses it. */
typedef struct entry {
  struct entry *next;
  char *key;
  nabla_provided provided; /* owner and release are those of plans */
  nabla_code code;
  uint32_t plans;
  int listed;
} entry;

/* All of it under `lock`, but `provided` of an entry, which never changes. */
static struct {
  pthread_mutex_t lock;
  int started;
  nabla_context context;
  nabla_machine *targets[NABLA_ISA_COUNT]; /* by nabla_isa */
  entry *entries;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void say_nothing(void *self, const char *text) {
  (void)self;
  (void)text;
}

/* ---- entries ----------------------------------------------------------------
 */

static void destroy(entry *e) {
  if (e->code.destroy) e->code.destroy(e->code.self);
  free(e->key);
  free(e);
}

/* Under the lock. */
static void drop_if_unused(entry *e) {
  if (!e->plans && !e->listed) destroy(e);
}

static void release(void *owner) {
  entry *e = owner;
  pthread_mutex_lock(&state.lock);
  e->plans--;
  drop_if_unused(e);
  pthread_mutex_unlock(&state.lock);
}

static entry *find(const char *key) {
  for (entry *e = state.entries; e; e = e->next)
    if (!strcmp(e->key, key)) return e;
  return NULL;
}

/* ---- specs ------------------------------------------------------------------
 */

/* Why there is no kernel, or NULL and the spec. */
static const char *spec_of(const nabla_matmul_request *request,
                           nabla_fused_spec *out) {
  const nabla_weight_view *weight = &request->weight;
  if (!weight->n || !weight->k) return "the weight has no elements";
  if (weight->layout.format.segment)
    return "blocks end with rows, but not all alike";
  *out = (nabla_fused_spec){.w = weight->layout,
                            .w_stored = weight->dtype,
                            .storage_elements = weight->n * weight->k,
                            .m_min = 1,
                            .m_max = request->m_max,
                            .n = weight->n,
                            .k = weight->k,
                            .stride_n = weight->k,
                            .stride_k = 1,
                            .numerics = request->numerics,
                            .layout = request->layout,
                            .x_type = request->x_type,
                            .y_type = request->y_type,
                            .w_type = NABLA_DTYPE_F32,
                            .steps = {NABLA_STEP_BIAS},
                            .step_count = request->bias != NULL};
  return NULL;
}

static void write_key(const nabla_fused_spec *spec, nabla_isa isa,
                      nabla_text *out) {
  const nabla_format *format = &spec->w.format;
  nabla_text_add(
      out,
      "%s %s %d %llu %d %d, %d, %llu, %llu, %llux%llu, %d %d, %d %d %u, %d",
      spec->w.ggml ? spec->w.ggml->name : "-",
      format->encoding ? format->encoding->name : "-", (int)format->granularity,
      (unsigned long long)format->block, (int)format->scale, format->zero_point,
      (int)spec->w_stored, (unsigned long long)spec->w.nested_block,
      (unsigned long long)spec->m_max, (unsigned long long)spec->n,
      (unsigned long long)spec->k, (int)spec->numerics, (int)spec->layout,
      (int)spec->x_type, (int)spec->y_type, spec->step_count, (int)isa);
}

/* ---- making
 * ------------------------------------------------------------------ */

static nabla_status use_target(nabla_isa isa, const nabla_machine **out,
                               nabla_diag *diag) {
  nabla_machine **target = &state.targets[isa];
  if (!*target)
    NABLA_TRY(nabla_machine_create(nabla_isa_target(isa), target, diag));
  *out = *target;
  if (!(*out)->missing) return NABLA_OK;
  return nabla_fail(diag, NABLA_UNSUPPORTED, "this CPU lacks %s",
                    (*out)->missing);
}

_Static_assert(NABLA_FUSED_CLASSES_MAX <= NABLA_MATMUL_MAX_KERNELS,
               "a plan has room for a kernel of each class");

static nabla_status look_up(const nabla_kernel_object *kernels, entry *e,
                            nabla_diag *diag) {
  static const char *const suffixes[] = NABLA_KERNEL_SUFFIXES;
  e->provided.count = kernels->count;
  for (uint32_t i = 0; i < kernels->count; i++) {
    const nabla_fused_spec *spec = &kernels->specs[i];
    nabla_provided_kernel *kernel = &e->provided.kernels[i];
    nabla_kernel_function *parts[NABLA_KERNEL_PARTS] = {
        &kernel->code.run, &kernel->code.prepare, &kernel->code.prepack};
    nabla_fused_describe(spec, &kernel->code);
    kernel->name = nabla_fused_variant(spec);
    kernel->m_last = spec->m_max ? spec->m_max : UINT64_MAX;
    for (uint32_t part = 0; part < NABLA_KERNEL_PARTS; part++) {
      nabla_text symbol = {0};
      *parts[part] = NULL;
      if (!nabla_kernel_has_part(spec, part)) continue;
      nabla_text_add(&symbol, NABLA_ENTRY_PREFIX "%u%s", i, suffixes[part]);
      if (!symbol.failed)
        *parts[part] = (nabla_kernel_function)(uintptr_t)e->code.lookup(
            e->code.self, symbol.data);
      nabla_text_deinit(&symbol);
      if (!*parts[part])
        return nabla_fail(diag, NABLA_CORRUPT, "a kernel does not link");
    }
  }
  return NABLA_OK;
}

/* Under the lock. */
static nabla_status make(const nabla_fused_spec *spec, nabla_isa isa, entry *e,
                         nabla_diag *diag) {
  const nabla_machine *target;
  nabla_kernel_object kernels;
  NABLA_TRY(use_target(isa, &target, diag));
  NABLA_TRY(
      nabla_kernels_compile(&state.context, target, spec, "", &kernels, diag));
  nabla_status status =
      nabla_jit_link(target, LLVMGetBufferStart(kernels.object),
                     LLVMGetBufferSize(kernels.object), &e->code, diag);
  LLVMDisposeMemoryBuffer(kernels.object);
  if (!status) status = look_up(&kernels, e, diag);
  return status;
}

typedef struct make_call {
  const nabla_fused_spec *spec;
  nabla_isa isa;
  entry *made;
  nabla_status status;
  nabla_diag *diag;
} make_call;

static void run_make(void *self) {
  make_call *c = self;
  c->status = make(c->spec, c->isa, c->made, c->diag);
}

/* The caller's stack may be small. */
static nabla_status make_aside(const nabla_fused_spec *spec, nabla_isa isa,
                               entry *e, nabla_diag *diag) {
  make_call c = {.spec = spec, .isa = isa, .made = e, .diag = diag};
  NABLA_TRY(nabla_stack_run(run_make, &c, diag));
  return c.status;
}

/* Finds or makes the entry of a key, which it takes. Under the lock. */
static nabla_status get(const nabla_fused_spec *spec, nabla_isa isa,
                        const char *key, entry **out, nabla_diag *diag) {
  *out = find(key);
  if (*out) return NABLA_OK;
  entry *e = calloc(1, sizeof *e);
  if (e) e->key = strdup(key);
  if (!e || !e->key) {
    free(e);
    (void)!nabla_fail(diag, NABLA_NO_MEMORY, "no memory for a kernel");
    return NABLA_NO_MEMORY;
  }
  nabla_status status = make_aside(spec, isa, e, diag);
  if (status) {
    destroy(e);
    return status;
  }
  e->provided.numerics = spec->numerics;
  e->provided.owner = e;
  e->provided.release = release;
  e->listed = 1;
  e->next = state.entries;
  state.entries = e;
  *out = e;
  return NABLA_OK;
}

static nabla_status provide(void *self, const nabla_matmul_request *request,
                            nabla_provided *out, nabla_diag *diag) {
  (void)self;
  nabla_fused_spec spec;
  nabla_text key = {0};
  entry *e = NULL;
  *out = (nabla_provided){0};
  const char *objection = spec_of(request, &spec);
  if (objection)
    return (void)!nabla_fail(diag, NABLA_UNSUPPORTED, "%s", objection),
           NABLA_OK;
  write_key(&spec, request->isa, &key);
  pthread_mutex_lock(&state.lock);
  nabla_status status =
      key.failed ? nabla_fail(diag, NABLA_NO_MEMORY, "no memory for a kernel")
                 : get(&spec, request->isa, key.data, &e, diag);
  if (e) {
    e->plans++;
    *out = e->provided;
  }
  pthread_mutex_unlock(&state.lock);
  nabla_text_deinit(&key);
  return status == NABLA_UNSUPPORTED ? NABLA_OK : status; /* others may */
}

/* ---- the interface
 * ------------------------------------------------------------ */

void nabla_compiler_provide_plans(void) {
  pthread_mutex_lock(&state.lock);
  if (!state.started) nabla_context_init(&state.context, say_nothing, NULL);
  state.started = 1;
  pthread_mutex_unlock(&state.lock);
  nabla_provider_register(provide, &state);
}

void nabla_compiler_withhold_plans(void) {
  nabla_provider_withdraw(&state);
  pthread_mutex_lock(&state.lock);
  while (state.entries) {
    entry *e = state.entries;
    state.entries = e->next;
    e->listed = 0;
    drop_if_unused(e);
  }
  for (int i = 0; i < NABLA_ISA_COUNT; i++) {
    nabla_machine_destroy(state.targets[i]);
    state.targets[i] = NULL;
  }
  if (state.started) nabla_context_deinit(&state.context);
  state.started = 0;
  pthread_mutex_unlock(&state.lock);
}
