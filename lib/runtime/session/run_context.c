/* The services that compiled code calls: nabla/services.h. */
#include "lib/runtime/session/run_context.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "lib/base/checked.h"

_Static_assert(offsetof(nabla_services, self) == 8 &&
                   offsetof(nabla_services, failed) == 16 &&
                   offsetof(nabla_services, allocate) == 24 &&
                   offsetof(nabla_services, release) == 32 &&
                   offsetof(nabla_services, parallel) == 40 &&
                   offsetof(nabla_services, fail) == 48 &&
                   offsetof(nabla_services, call) == 56 &&
                   offsetof(nabla_services, profile) == 64 &&
                   offsetof(nabla_services, result) == 72 &&
                   offsetof(nabla_services, part_begin) == 80 &&
                   offsetof(nabla_services, part_end) == 88 &&
                   offsetof(nabla_services, hold) == 96 &&
                   sizeof(nabla_services) == 104,
               "the offsets that compiled code uses");

/* What an allocation for the code gave, or that it gave nothing. */
static void *note(nabla_run_context *context, void *memory, uint64_t bytes) {
  if (!memory && context->refused == UINT64_MAX) context->refused = bytes;
  if (memory) nabla_plan_guard_forget(memory, bytes);
  return memory;
}

static void *allocate(const nabla_services *services, uint64_t bytes) {
  nabla_run_context *context = services->self;
  return note(
      context,
      nabla_run_arena_allocate(context->arena, context->allocator, bytes),
      bytes);
}

static void release(const nabla_services *services, void *memory) {
  nabla_run_context *context = services->self;
  if (context->trace) nabla_memory_trace_drop(context->trace, memory);
  nabla_run_arena_release(context->arena, context->allocator, memory);
}

static void *result(const nabla_services *services, uint64_t index,
                    uint64_t bytes) {
  nabla_run_context *context = services->self;
  nabla_result_block *block =
      index < context->result_count ? &context->results[index] : NULL;
  if (!block) return allocate(services, bytes);
  if (!block->data || block->bytes != bytes) {
    if (!context->result_allocator) return allocate(services, bytes);
    return note(context, nabla_run_context_allocate_result(context, bytes),
                bytes);
  }
  void *memory = block->data;
  block->data = NULL;
  return memory;
}

/* A region for the pool. */
typedef struct region {
  nabla_kernel_function kernel;
  const uint64_t *arguments;
  uint64_t count, grain, units;
} region;

static void run_part(void *context, uint32_t worker, uint32_t workers) {
  const region *all = context;
  uint64_t begin, end;
  nabla_pool_split(all->units, workers, worker, &begin, &end);
  if (begin == end) return;
  /* the last unit may be short; the products are below `count` */
  all->kernel(all->arguments, begin * all->grain,
              end == all->units ? all->count : end * all->grain);
}

static void parallel(const nabla_services *services,
                     nabla_kernel_function kernel, const uint64_t *arguments,
                     uint64_t count, uint64_t grain) {
  const nabla_run_context *context = services->self;
  if (count == 0) return;
  grain &= ~NABLA_PARALLEL_WHOLE;
  if (grain == 0) grain = 1;
  region all = {kernel, arguments, count, grain,
                nabla_ceil_div_u64(count, grain)};
  if (all.units == 1 || !context->pool || nabla_pool_size(context->pool) == 1)
    kernel(arguments, 0, count);
  else
    nabla_pool_run(context->pool, run_part, &all);
}

static void fail(const nabla_services *services, uint32_t failure,
                 const char *where, int64_t first, int64_t second) {
  nabla_run_context *context = services->self;
  if (!context->failed) {
    context->failure = failure;
    context->where = where;
    context->first = first;
    context->second = second;
  }
  context->failed = 1;
}

static void part_begin(const nabla_services *services, void *memory,
                       uint64_t bytes) {
  nabla_run_context *context = services->self;
  if (!nabla_plan_guard_begin(&context->guard, context->allocator, memory,
                              bytes))
    fail(services, NABLA_FAILURE_PLAN, "planned arrays overlap", 0, 0);
}

static void part_end(const nabla_services *services, void *memory,
                     uint64_t bytes) {
  nabla_run_context *context = services->self;
  (void)bytes;
  if (context->trace) nabla_memory_trace_drop(context->trace, memory);
  if (!nabla_plan_guard_end(&context->guard, memory))
    fail(services, NABLA_FAILURE_PLAN,
         "a planned array is written past its end", 0, 0);
}

/* A part that a called function has counts as the parts that it places there.
 */
static void hold(const nabla_services *services, void *memory, uint64_t bytes,
                 const char *what) {
  const nabla_run_context *context = services->self;
  if (!memory || (bytes & NABLA_PART_IS_OF_CALL)) return;
  nabla_memory_trace_hold(context->trace, context->allocator, memory,
                          bytes & ~NABLA_PART_HAS_RED_ZONE, what);
}

static void call(const nabla_services *services, uint64_t site,
                 const uint64_t *words) {
  nabla_run_context *context = services->self;
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_status status =
      nabla_calls_run(context->calls, site, words, context->rank, &diag);
  if (!status) return;
  if (!context->failed) {
    context->call_status = status;
    memcpy(context->call_what, diag.what, sizeof context->call_what);
  }
  fail(services, NABLA_FAILURE_CALL, NULL, 0, 0);
}

static void profile(const nabla_services *services, const char *what,
                    uint64_t bytes, uint64_t flops) {
  nabla_run_context *context = services->self;
  const double now = nabla_profiler_now();
  if (context->profiled)
    nabla_profiler_add(context->profiler, context->profiled,
                       now - context->profiled_since, bytes, flops);
  context->profiled = what;
  context->profiled_since = nabla_profiler_now();
}

/* ---- results ------------------------------------------------------------ */

void *nabla_run_context_allocate_result(nabla_run_context *context,
                                        uint64_t bytes) {
  return context->result_allocator
             ? nabla_allocations_allocate(&context->given,
                                          context->result_allocator, bytes)
             : nabla_run_arena_allocate(context->arena, context->allocator,
                                        bytes);
}

const nabla_allocations *nabla_run_context_result_blocks(
    const nabla_run_context *context) {
  return context->result_allocator ? &context->given : &context->arena->live;
}

void nabla_run_context_take_result(nabla_run_context *context, void *memory) {
  if (context->result_allocator)
    nabla_allocations_take(&context->given, memory);
  else
    nabla_run_arena_take(context->arena, memory);
}

/* ---- a run -------------------------------------------------------------- */

void nabla_run_context_profile(nabla_run_context *context,
                               nabla_profiler *profiler) {
  context->profiler = profiler;
  context->services.profile = profiler ? profile : NULL;
}

/* A guard without parts says nothing of those that end. */
static void set_part_end(nabla_run_context *context) {
  context->services.part_end =
      context->services.part_begin || context->trace ? part_end : NULL;
}

void nabla_run_context_trace(nabla_run_context *context,
                             nabla_memory_trace *trace) {
  context->trace = trace;
  context->services.hold = trace ? hold : NULL;
  set_part_end(context);
}

void nabla_run_context_guard(nabla_run_context *context, int is_on) {
  context->services.part_begin = is_on ? part_begin : NULL;
  set_part_end(context);
}

void nabla_run_context_begin(nabla_run_context *context,
                             const nabla_environment *environment,
                             nabla_run_arena *arena) {
  *context = (nabla_run_context){
      .services = {.version = NABLA_SERVICES_VERSION,
                   .size = sizeof(nabla_services),
                   .self = context,
                   .failed = &context->failed,
                   .allocate = allocate,
                   .release = release,
                   .parallel = parallel,
                   .fail = fail,
                   .call = call,
                   .result = result},
      .allocator = environment->allocator,
      .pool = environment->pool,
      .arena = arena,
      .refused = UINT64_MAX,
  };
  nabla_run_context_guard(context, nabla_plan_guard_is_on());
}

static nabla_status fail_memory(const nabla_run_context *context,
                                nabla_diag *diag) {
  const char *where = context->where;
  if (context->refused == UINT64_MAX)
    return nabla_fail(diag, NABLA_NO_MEMORY, "%s%sout of memory",
                      where ? where : "", where ? ": " : "");
  return nabla_fail(diag, NABLA_NO_MEMORY,
                    "%s%scannot allocate %" PRIu64 " bytes", where ? where : "",
                    where ? ": " : "", context->refused);
}

nabla_status nabla_run_context_status(const nabla_run_context *context,
                                      nabla_diag *diag) {
  const char *where = context->where;
  if (!context->failed) return NABLA_OK;
  if (context->failure == NABLA_FAILURE_NO_MEMORY)
    return fail_memory(context, diag);
  if (context->failure == NABLA_FAILURE_CALL)
    return nabla_fail(diag, context->call_status, "%s", context->call_what);
  if (context->failure == NABLA_FAILURE_PLAN)
    return nabla_fail(diag, NABLA_CORRUPT,
                      "%s: this is a defect of the compiler, or of a kernel",
                      where);
  if (context->failure == NABLA_FAILURE_DIVISION)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "%s%s%" PRId64 " integers are divided by zero",
                      where ? where : "", where ? ": " : "", context->first);
  if (context->failure != NABLA_FAILURE_SHAPE)
    return nabla_fail(
        diag, NABLA_UNSUPPORTED,
        "%s%sfailed in a way (%" PRIu32 ") that this build does not know",
        where ? where : "the code", where ? ": " : " ", context->failure);
  const nabla_status status = nabla_fail(
      diag, NABLA_INVALID_ARGUMENT,
      "%s%sdimensions %" PRId64 " and %" PRId64 " do not agree",
      where ? where : "", where ? ": " : "", context->first, context->second);
  nabla_diag_set_next(diag, "give inputs whose shapes fit together");
  return status;
}

void nabla_run_context_end(nabla_run_context *context) {
  nabla_plan_guard_deinit(&context->guard, context->allocator);
  if (context->trace) nabla_memory_trace_end_run(context->trace);
  nabla_allocations_clear(&context->given, context->result_allocator);
  nabla_run_arena_end_run(context->arena, context->allocator);
}
