/* Executables: made from code and its manifest, asked what they take, given
 * weights. Runs are in run.c. */
#include "nabla/executable.h"

#include <inttypes.h>
#include <string.h>

#include "lib/base/edit_distance.h"
#include "lib/base/require.h"
#include "lib/runtime/program/allocations.h"
#include "lib/runtime/program/bound_key.h"
#include "lib/runtime/program/components.h"
#include "lib/runtime/program/executable_internal.h"
#include "lib/runtime/program/type_to_text.h"
#include "lib/runtime/session/profile.h"
#include "lib/runtime/session/run_arena.h"

/* ---- making ------------------------------------------------------------- */

static nabla_status look_up(nabla_executable *executable, size_t index,
                            nabla_diag *diag) {
  const char *name = executable->manifest.functions[index].name;
  nabla_buffer symbol;
  nabla_buffer_init(&symbol, executable->environment.allocator, "a symbol",
                    NABLA_MANIFEST_MAX + sizeof NABLA_ENTRY_PREFIX);
  nabla_status status = nabla_buffer_append(
      &symbol, NABLA_ENTRY_PREFIX, sizeof NABLA_ENTRY_PREFIX - 1, diag);
  if (!status)
    status = nabla_buffer_append(&symbol, name, strlen(name) + 1, diag);
  if (!status) {
    executable->entries[index] = executable->code.lookup(
        executable->code.self, (const char *)symbol.data);
    if (!executable->entries[index])
      status = nabla_fail(diag, NABLA_CORRUPT,
                          "the code has no function '%.100s'", name);
  }
  nabla_buffer_deinit(&symbol);
  return status;
}

static nabla_status fill(nabla_executable *executable, nabla_diag *diag) {
  const nabla_allocator *allocator = executable->environment.allocator;
  const char *text = executable->code.manifest;
  void *entries = NULL, *bindings = NULL;
  if (!text) return nabla_fail(diag, NABLA_CORRUPT, "the code has no manifest");
  NABLA_TRY(nabla_manifest_parse(allocator, text, strlen(text),
                                 &executable->manifest, diag));
  const nabla_manifest *manifest = &executable->manifest;
  NABLA_TRY(nabla_alloc(allocator, manifest->function_count,
                        sizeof(nabla_entry_function), &entries, diag));
  executable->entries = entries;
  NABLA_TRY(nabla_alloc(allocator, manifest->port_count, sizeof(nabla_binding),
                        &bindings, diag));
  executable->bindings = bindings;
  for (size_t i = 0; i < manifest->function_count; i++)
    NABLA_TRY(look_up(executable, i, diag));
  return nabla_calls_open(manifest->calls, manifest->call_count,
                          &executable->calls, diag);
}

static void destroy_code(const nabla_code *code) {
  if (code->destroy) code->destroy(code->self);
}

nabla_status nabla_executable_create(const nabla_code *take_code,
                                     const nabla_environment *environment,
                                     nabla_executable **out, nabla_diag *diag) {
  static const nabla_environment defaults = {0};
  if (!environment) environment = &defaults;
  void *block = NULL;
  nabla_status status = nabla_alloc(environment->allocator, 1,
                                    sizeof(nabla_executable), &block, diag);
  if (status) {
    destroy_code(take_code);
    return status;
  }
  nabla_executable *executable = block;
  executable->environment = *environment;
  executable->code = *take_code;
  atomic_init(&executable->references, 1);
  status = fill(executable, diag);
  if (status)
    nabla_executable_close(executable);
  else
    *out = executable;
  return status;
}

void nabla_executable_close(nabla_executable *executable) {
  if (!executable || atomic_fetch_sub(&executable->references, 1) != 1) return;
  const nabla_allocator *allocator = executable->environment.allocator;
  nabla_run_arena_destroy(atomic_load(&executable->idle), allocator);
  nabla_profiler_destroy(executable->profiler);
  nabla_calls_close(executable->calls);
  nabla_free(allocator, executable->bindings, executable->manifest.port_count,
             sizeof(nabla_binding));
  nabla_free(allocator, executable->entries,
             executable->manifest.function_count, sizeof(nabla_entry_function));
  nabla_manifest_deinit(&executable->manifest);
  destroy_code(&executable->code);
  nabla_free(allocator, executable, 1, sizeof *executable);
}

/* ---- asking ------------------------------------------------------------- */

size_t nabla_executable_function_count(const nabla_executable *executable) {
  return executable->manifest.function_count;
}

const nabla_signature *nabla_executable_function(
    const nabla_executable *executable, size_t index) {
  return index < executable->manifest.function_count
             ? &executable->manifest.functions[index]
             : NULL;
}

const nabla_signature *nabla_executable_find(const nabla_executable *executable,
                                             const char *name) {
  return nabla_executable_function(
      executable, nabla_manifest_find(&executable->manifest, name));
}

uint32_t nabla_executable_ranks(const nabla_executable *executable) {
  return executable->manifest.ranks ? executable->manifest.ranks : 1;
}

nabla_status nabla_executable_seek(const nabla_executable *executable,
                                   const char *name, size_t *out_index,
                                   nabla_diag *diag) {
  const nabla_manifest *manifest = &executable->manifest;
  const size_t index = nabla_manifest_find(manifest, name);
  if (index != SIZE_MAX) {
    *out_index = index;
    return NABLA_OK;
  }
  nabla_nearest nearest = nabla_nearest_begin(name, strlen(name));
  for (size_t i = 0; i < manifest->function_count; i++)
    nabla_nearest_offer(&nearest, manifest->functions[i].name,
                        strlen(manifest->functions[i].name));
  const nabla_status status = nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                                         "there is no function '%.100s'", name);
  nabla_nearest_say(&nearest, diag,
                    manifest->function_count ? "name one of the program's"
                                             : "the program has none");
  return status;
}

/* Keeps the memory of a result for the next run, or frees it where a run has
 * the arena just now. */
static void give_back(nabla_executable *executable, void *memory) {
  const nabla_allocator *allocator = executable->environment.allocator;
  nabla_run_arena *arena = atomic_exchange(&executable->idle, NULL);
  if (!arena) {
    nabla_allocations_free(NULL, allocator, memory);
    return;
  }
  nabla_run_arena_give(arena, allocator, memory);
  nabla_run_arena_destroy(atomic_exchange(&executable->idle, arena), allocator);
}

void nabla_dense_release(nabla_executable *executable, nabla_dense *array) {
  if (!executable || !array) return;
  give_back(executable, array->data);
  array->data = NULL;
}

/* ---- binding ------------------------------------------------------------ */

static int same_shape(const nabla_port *port, const nabla_weight_desc *weight) {
  if (port->rank != weight->rank) return 0;
  for (uint32_t i = 0; i < port->rank; i++)
    if (weight->shape[i] > INT64_MAX ||
        (port->shape[i] != NABLA_DYNAMIC &&
         port->shape[i] != (int64_t)weight->shape[i]))
      return 0;
  return 1;
}

int nabla_executable_fits(const nabla_port *port,
                          const nabla_weight_desc *weight) {
  if (port->layout.kind == NABLA_STORAGE_DENSE && port->dtype != weight->dtype)
    return 0;
  return nabla_storage_equal(&port->layout, &weight->layout) &&
         same_shape(port, weight);
}

static nabla_status blame(const nabla_weight_desc *weight, nabla_status status,
                          nabla_diag *diag) {
  if (weight->name)
    nabla_diag_set_tensor(diag, weight->name, strlen(weight->name));
  return status;
}

/* The components are there, whole, and where code can read them. */
static nabla_status check_data(const nabla_port *port,
                               const nabla_weight_desc *weight,
                               nabla_diag *diag) {
  nabla_diag why = NABLA_DIAG_INIT;
  const nabla_status status = nabla_weight_check(weight, &why);
  if (!status) return NABLA_OK;
  (void)!nabla_fail(diag, status, "argument '%.60s': %.160s", port->name,
                    why.what);
  if (*why.next) nabla_diag_set_next(diag, "%s", why.next);
  return blame(weight, status, diag);
}

nabla_status nabla_executable_check_fit(const nabla_port *port,
                                        const nabla_weight_desc *weight,
                                        nabla_diag *diag) {
  const int needs_nothing = *port->encoding_name && !port->component_count;
  if (*port->state_name) {
    const nabla_status status =
        nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                   "argument '%.60s' is the state '%.60s': it takes no weight",
                   port->name, port->state_name);
    nabla_diag_set_next(diag, "give it its value: nabla_session_state_set");
    return blame(weight, status, diag);
  }
  if (port->is_donated) {
    const nabla_status status = nabla_fail(
        diag, NABLA_INVALID_ARGUMENT,
        "argument '%.60s' is donated: runs write to it, and it takes no weight",
        port->name);
    nabla_diag_set_next(diag, "give each run an array of its own");
    return blame(weight, status, diag);
  }
  if (!needs_nothing && nabla_executable_fits(port, weight))
    return check_data(port, weight, diag);
  const nabla_text_80 takes = nabla_describe_port(port);
  const nabla_text_80 given = nabla_describe_weight(weight);
  const nabla_status status =
      needs_nothing
          ? nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                       "argument '%.60s' is a %.40s: it takes no weight",
                       port->name, port->encoding_name)
          : nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                       "argument '%.60s' takes %s; the weight is %s",
                       port->name, takes.text, given.text);
  return blame(weight, status, diag);
}

static nabla_status fail_no_argument(const nabla_executable *executable,
                                     const char *argument, nabla_diag *diag) {
  nabla_nearest nearest = nabla_nearest_begin(argument, strlen(argument));
  for (size_t i = 0; i < executable->manifest.function_count; i++) {
    const nabla_signature *function = &executable->manifest.functions[i];
    for (size_t j = 0; j < function->argument_count; j++)
      nabla_nearest_offer(&nearest, function->arguments[j].name,
                          strlen(function->arguments[j].name));
  }
  const nabla_status status =
      nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                 "no function has an argument '%.100s'", argument);
  nabla_nearest_say(&nearest, diag,
                    "name an argument of the program; those without a "
                    "nabla.name are called arg0, arg1, ...");
  return status;
}

void nabla_executable_take(nabla_binding *binding,
                           const nabla_weight_desc *weight) {
  *binding = (nabla_binding){.is_bound = 1};
  for (uint32_t i = 0; i < weight->component_count; i++)
    binding->data[i] = weight->components[i].data;
  for (uint32_t i = 0; i < weight->rank; i++)
    binding->shape[i] = (int64_t)weight->shape[i];
}

/* A place in the list of all arguments; zero-initialised is the start. */
typedef struct place {
  size_t function, argument;
} place;

/* The next argument of that name, or NULL. */
static const nabla_port *next_named(const nabla_manifest *manifest,
                                    const char *name, place *at) {
  for (; at->function < manifest->function_count;
       at->function++, at->argument = 0) {
    const nabla_signature *function = &manifest->functions[at->function];
    while (at->argument < function->argument_count) {
      const nabla_port *port = &function->arguments[at->argument++];
      if (!strcmp(port->name, name)) return port;
    }
  }
  return NULL;
}

nabla_status nabla_executable_check_open(const nabla_executable *executable,
                                         nabla_diag *diag) {
  if (!atomic_load(&executable->seals)) return NABLA_OK;
  const nabla_status status =
      nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                 "nothing can be bound: the program has a session, or has run "
                 "in one");
  nabla_diag_set_next(diag, "bind all weights before the first session");
  return status;
}

nabla_status nabla_executable_bind(nabla_executable *executable,
                                   const char *argument,
                                   const nabla_weight_desc *weight,
                                   nabla_diag *diag) {
  NABLA_REQUIRE(executable, diag);
  NABLA_REQUIRE(argument, diag);
  NABLA_REQUIRE(weight, diag);
  const nabla_manifest *manifest = &executable->manifest;
  const nabla_port *port;
  place at = {0};
  NABLA_TRY(nabla_executable_check_open(executable, diag));
  size_t found = 0;
  for (; (port = next_named(manifest, argument, &at)) != NULL; found++)
    NABLA_TRY(nabla_executable_check_fit(port, weight, diag));
  if (!found) return fail_no_argument(executable, argument, diag);
  for (at = (place){0}; (port = next_named(manifest, argument, &at)) != NULL;)
    nabla_executable_take(nabla_executable_binding(executable, port), weight);
  nabla_bound_key_add(executable, argument, weight);
  return NABLA_OK;
}
