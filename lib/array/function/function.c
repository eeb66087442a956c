/* Functions: their options, and the cache of their signatures. */
#include "lib/array/function/function.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/require.h"
#include "lib/compiler/codegen.h"

#define DEFAULT_SIGNATURES ((size_t)64)
#define TRACES_PER_KEPT    ((uint64_t)16)
#define TEXT_LIMIT         ((size_t)1 << 20)
#define NOTE_LIMIT         ((size_t)1 << 24)

static _Atomic uint64_t last_number;

/* ---- options ---- */

/* Copies the name of a leaf, "" of a tree that is one array; `out` gets its
 * offset, as `texts` may move. */
static nabla_status copy_leaf(nabla_function *function, const char *text,
                              const char **out, nabla_diag *diag) {
  if (!text)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "a dimension or state of the function %s without a name",
                      function->options.name);
  const uintptr_t offset = function->texts.size;
  NABLA_TRY(
      nabla_buffer_append(&function->texts, text, strlen(text) + 1, diag));
  *out = (const char *)offset;
  return NABLA_OK;
}

/* The same of a name that is not empty. */
static nabla_status copy_text(nabla_function *function, const char *text,
                              const char **out, nabla_diag *diag) {
  return copy_leaf(function, text && *text ? text : NULL, out, diag);
}

static const char *text_at(const nabla_function *function, const char *offset) {
  return (const char *)function->texts.data + (uintptr_t)offset;
}

static nabla_status copy_dims(nabla_function *function,
                              const nabla_function_options *options,
                              nabla_diag *diag) {
  void *memory;
  if (!options->dim_count) return NABLA_OK;
  NABLA_REQUIRE(options->dims, diag);
  NABLA_TRY(nabla_alloc(function->allocator, options->dim_count,
                        sizeof *function->dims, &memory, diag));
  function->dims = memory;
  for (size_t i = 0; i < options->dim_count; i++) {
    function->dims[i] = options->dims[i];
    if (options->dims[i].dim >= NABLA_ARRAY_MAX_RANK)
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "dimension %" PRIu32 " of %s; arrays have at most %d",
                        options->dims[i].dim, options->dims[i].argument,
                        NABLA_ARRAY_MAX_RANK);
    NABLA_TRY(copy_leaf(function, options->dims[i].argument,
                        &function->dims[i].argument, diag));
    NABLA_TRY(copy_text(function, options->dims[i].name,
                        &function->dims[i].name, diag));
  }
  return NABLA_OK;
}

/* An argument has one memory, and so has a result: two entries of a list have
 * neither in common. */
static nabla_status check_pair(const nabla_function *function,
                               const nabla_function_replacement *a,
                               const nabla_function_replacement *b,
                               nabla_diag *diag) {
  const bool is_argument = !strcmp(a->argument, b->argument);
  if (!is_argument && strcmp(a->result, b->result) != 0) return NABLA_OK;
  return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                    "the options of %s name the %s '%.80s' twice",
                    function->options.name, is_argument ? "argument" : "result",
                    is_argument ? a->argument : a->result);
}

static nabla_status copy_replacements(nabla_function *function, size_t count,
                                      const nabla_function_replacement *list,
                                      bool is_state,
                                      nabla_function_replacement **out,
                                      nabla_diag *diag) {
  void *memory;
  if (!count) return NABLA_OK;
  NABLA_REQUIRE(list, diag);
  NABLA_TRY(
      nabla_alloc(function->allocator, count, sizeof **out, &memory, diag));
  *out = memory;
  for (size_t i = 0; i < count; i++) {
    NABLA_TRY((is_state ? copy_text : copy_leaf)(function, list[i].argument,
                                                 &(*out)[i].argument, diag));
    NABLA_TRY(copy_leaf(function, list[i].result, &(*out)[i].result, diag));
    for (size_t k = 0; k < i; k++)
      NABLA_TRY(check_pair(function, &list[k], &list[i], diag));
  }
  return NABLA_OK;
}

static void settle_replacements(const nabla_function *function, size_t count,
                                nabla_function_replacement *list) {
  for (size_t i = 0; i < count; i++) {
    list[i].argument = text_at(function, list[i].argument);
    list[i].result = text_at(function, list[i].result);
  }
}

/* Makes offsets pointers. */
static void settle_texts(nabla_function *function) {
  function->options.name = text_at(function, function->options.name);
  for (size_t i = 0; i < function->options.dim_count; i++) {
    nabla_function_dim *dim = &function->dims[i];
    dim->argument = text_at(function, dim->argument);
    dim->name = text_at(function, dim->name);
  }
  settle_replacements(function, function->options.state_count,
                      function->states);
  settle_replacements(function, function->options.donated_count,
                      function->donated);
}

static nabla_status copy_options(nabla_function *function,
                                 const nabla_function_options *options,
                                 nabla_diag *diag) {
  function->options = *options;
  if (!function->options.name) function->options.name = "main";
  if (!function->options.max_signatures)
    function->options.max_signatures = DEFAULT_SIGNATURES;
  if (!function->options.max_traces)
    function->options.max_traces =
        TRACES_PER_KEPT * function->options.max_signatures;
  const char *name;
  NABLA_TRY(nabla_array_policy_read(options->policy, &function->policy, diag));
  function->options.policy = NULL;
  NABLA_TRY(copy_text(function, function->options.name, &name, diag));
  NABLA_TRY(copy_dims(function, options, diag));
  NABLA_TRY(copy_replacements(function, options->state_count, options->states,
                              true, &function->states, diag));
  NABLA_TRY(copy_replacements(function, options->donated_count,
                              options->donated, false, &function->donated,
                              diag));
  function->options.name = name;
  settle_texts(function);
  return NABLA_OK;
}

const nabla_function_replacement *nabla_function_find(
    size_t count, const nabla_function_replacement *list, const char *name,
    bool is_result) {
  for (size_t i = 0; i < count; i++)
    if (!strcmp(name, is_result ? list[i].result : list[i].argument))
      return &list[i];
  return NULL;
}

/* ---- life ---- */

nabla_status nabla_function_create(nabla_engine *engine,
                                   nabla_function_callback callback,
                                   const nabla_function_options *options,
                                   nabla_function **out, nabla_diag *diag) {
  static const nabla_function_options defaults = {.struct_size =
                                                      sizeof defaults};
  NABLA_REQUIRE(engine, diag);
  NABLA_REQUIRE(callback, diag);
  NABLA_REQUIRE(out, diag);
  void *memory;
  if (!options) options = &defaults;
  NABLA_REQUIRE_SIZE(options, "function options", diag);
  const nabla_allocator *allocator = nabla_engine_allocator(engine);
  NABLA_TRY(nabla_alloc(allocator, 1, sizeof(nabla_function), &memory, diag));
  nabla_function *function = memory;
  function->engine = engine;
  function->allocator = allocator;
  function->callback = callback;
  function->number = atomic_fetch_add(&last_number, 1) + 1;
  nabla_buffer_init(&function->texts, allocator, "options of a function",
                    TEXT_LIMIT);
  nabla_buffer_init(&function->note, allocator, "the note of a function",
                    NOTE_LIMIT);
  pthread_mutex_init(&function->lock, NULL);
  pthread_cond_init(&function->changed, NULL);
  const nabla_status status = copy_options(function, options, diag);
  if (status)
    nabla_function_destroy(function);
  else
    *out = function;
  return status;
}

static void free_traced(nabla_function *function, nabla_traced *traced) {
  const nabla_allocator *allocator = function->allocator;
  for (size_t i = 0; i < traced->capture_count; i++)
    if (traced->captures[i]) nabla_array_drop(traced->captures[i]);
  nabla_free(allocator, traced->captures, traced->capture_count,
             sizeof *traced->captures);
  nabla_free(allocator, traced->results, traced->result_count,
             sizeof *traced->results);
  nabla_free(allocator, traced->key, 1, traced->key_size);
  nabla_free(allocator, traced->text, 1, traced->text_size);
  nabla_buffer_deinit(&traced->bytecode);
  nabla_buffer_deinit(&traced->ruled);
  if (traced->program) nabla_engine_give(function->engine, traced->program);
  if (traced->sessions) nabla_engine_give(function->engine, traced->sessions);
  nabla_free(allocator, traced, 1, sizeof *traced);
}

static void remove_traced(nabla_function *function, nabla_traced *traced) {
  nabla_traced **at =
      &function->buckets[traced->hash.low64 % NABLA_FUNCTION_BUCKETS];
  while (*at != traced) at = &(*at)->chain;
  *at = traced->chain;
  if (traced->newer) traced->newer->older = traced->older;
  if (traced->older) traced->older->newer = traced->newer;
  if (function->newest == traced) function->newest = traced->older;
  if (function->oldest == traced) function->oldest = traced->newer;
  function->counts.signatures--;
  function->counts.bytes -= traced->bytes;
  traced->newer = traced->older = traced->chain = NULL;
  traced->is_kept = false;
}

void nabla_function_destroy(nabla_function *function) {
  if (!function) return;
  const nabla_allocator *allocator = function->allocator;
  while (function->newest) {
    nabla_traced *traced = function->newest;
    remove_traced(function, traced);
    free_traced(function, traced);
  }
  nabla_free(allocator, function->dims, function->options.dim_count,
             sizeof *function->dims);
  nabla_free(allocator, function->states, function->options.state_count,
             sizeof *function->states);
  nabla_free(allocator, function->donated, function->options.donated_count,
             sizeof *function->donated);
  nabla_buffer_deinit(&function->texts);
  nabla_buffer_deinit(&function->note);
  if (function->release) function->release(function->options.self);
  pthread_cond_destroy(&function->changed);
  pthread_mutex_destroy(&function->lock);
  nabla_free(allocator, function, 1, sizeof *function);
}

nabla_status nabla_function_set_note(nabla_function *function, size_t size,
                                     const void *bytes, nabla_diag *diag) {
  NABLA_REQUIRE(function, diag);
  if (size) NABLA_REQUIRE(bytes, diag);
  nabla_buffer note;
  nabla_buffer_init(&note, function->allocator, "the note of a function",
                    NOTE_LIMIT);
  if (size) NABLA_TRY(nabla_buffer_append(&note, bytes, size, diag));
  pthread_mutex_lock(&function->lock);
  nabla_buffer old = function->note;
  function->note = note;
  pthread_mutex_unlock(&function->lock);
  nabla_buffer_deinit(&old);
  return NABLA_OK;
}

const void *nabla_function_borrow_note(const nabla_function *function,
                                       size_t *out_size) {
  if (out_size) *out_size = function ? function->note.size : 0;
  return function && function->note.size ? function->note.data : NULL;
}

nabla_status nabla_function_count(nabla_function *function,
                                  nabla_function_statistics *out,
                                  nabla_diag *diag) {
  NABLA_REQUIRE(function, diag);
  NABLA_REQUIRE(out, diag);
  NABLA_REQUIRE_SIZE(out, "function statistics", diag);
  pthread_mutex_lock(&function->lock);
  *out = function->counts;
  pthread_mutex_unlock(&function->lock);
  out->struct_size = sizeof *out;
  return NABLA_OK;
}

/* ---- signatures ---- */

static nabla_traced *find(const nabla_function *function, XXH128_hash_t hash,
                          const nabla_buffer *key) {
  nabla_traced *traced = function->buckets[hash.low64 % NABLA_FUNCTION_BUCKETS];
  while (traced && !(XXH128_isEqual(traced->hash, hash) &&
                     traced->key_size == key->size &&
                     !memcmp(traced->key, key->data, key->size)))
    traced = traced->chain;
  return traced;
}

/* Finds the signature of a call. Those of a loaded function give their results
 * to any tree of as many leaves: the program in whose place it stands may not
 * know the structure. */
static nabla_traced *find_call(const nabla_function_arguments *call,
                               XXH128_hash_t hash) {
  const nabla_function *function = call->function;
  const nabla_buffer *key = &call->key;
  nabla_traced *traced = find(function, hash, key);
  if (traced || !function->is_loaded) return traced;
  const size_t dims = call->dims.size;
  for (traced = function->newest; traced; traced = traced->older)
    if (traced->result_count == call->result_count &&
        traced->key_size >= call->arguments_size + dims &&
        !memcmp(traced->key, key->data, call->arguments_size) &&
        (!dims || !memcmp(traced->key + traced->key_size - dims,
                          key->data + key->size - dims, dims)))
      break;
  return traced;
}

static void make_newest(nabla_function *function, nabla_traced *traced) {
  if (function->newest == traced) return;
  if (traced->newer) traced->newer->older = traced->older;
  if (traced->older) traced->older->newer = traced->newer;
  if (function->oldest == traced) function->oldest = traced->newer;
  traced->newer = NULL;
  traced->older = function->newest;
  if (function->newest) function->newest->newer = traced;
  function->newest = traced;
  if (!function->oldest) function->oldest = traced;
}

static nabla_status add(nabla_function *function, XXH128_hash_t hash,
                        const nabla_buffer *key, nabla_traced **out,
                        nabla_diag *diag) {
  void *memory, *bytes;
  NABLA_TRY(
      nabla_alloc(function->allocator, 1, sizeof(nabla_traced), &memory, diag));
  nabla_traced *traced = memory;
  const nabla_status status =
      nabla_alloc(function->allocator, 1, key->size, &bytes, diag);
  if (status) nabla_free(function->allocator, memory, 1, sizeof *traced);
  if (status) return status;
  traced->hash = hash;
  traced->key = bytes;
  traced->key_size = key->size;
  memcpy(traced->key, key->data, key->size);
  traced->is_kept = true;
  nabla_buffer_init(&traced->bytecode, function->allocator, "a function",
                    SIZE_MAX / 2);
  nabla_buffer_init(&traced->ruled, function->allocator, "a function",
                    SIZE_MAX / 2);
  nabla_traced **bucket =
      &function->buckets[hash.low64 % NABLA_FUNCTION_BUCKETS];
  traced->chain = *bucket;
  *bucket = traced;
  function->counts.signatures++;
  make_newest(function, traced);
  *out = traced;
  return NABLA_OK;
}

static void evict(nabla_function *function) {
  nabla_traced *traced = function->oldest;
  while (traced &&
         function->counts.signatures > function->options.max_signatures) {
    nabla_traced *newer = traced->newer;
    if (!traced->users) {
      remove_traced(function, traced);
      free_traced(function, traced);
      function->counts.evictions++;
    }
    traced = newer;
  }
}

/* Gives back; the lock is held. */
static void give(nabla_function *function, nabla_traced *traced) {
  if (--traced->users) return;
  if (!traced->is_kept) free_traced(function, traced);
  evict(function);
}

void nabla_function_give(nabla_function *function, nabla_traced *traced) {
  pthread_mutex_lock(&function->lock);
  give(function, traced);
  pthread_mutex_unlock(&function->lock);
}

/* The first dimension in which a call differs from the signature that was used
 * last, by name. */
typedef struct growth {
  const nabla_function_arguments *call;
  const int64_t *other;
  size_t leaf;
  char text[160];
} growth;

static nabla_status find_growth(void *self, const char *name,
                                nabla_array **place, nabla_diag *diag) {
  (void)diag;
  growth *g = self;
  const nabla_dense *dense = &(*place)->dense;
  for (uint32_t d = 0; d < dense->rank; d++, g->other++)
    if (!*g->text && *g->other >= 0 && *g->other != dense->shape[d])
      (void)snprintf(g->text, sizeof g->text,
                     "dimension %" PRIu32
                     " of the argument '%.60s', now "
                     "%" PRId64 ", was %" PRId64,
                     d, name, dense->shape[d], *g->other);
  return NABLA_OK;
}

/* The tail of a key is the dims of all leaves. */
static nabla_status refuse_growth(const nabla_function_arguments *call,
                                  nabla_diag *diag) {
  const nabla_function *function = call->function;
  growth g = {.call = call};
  const nabla_traced *last = function->newest;
  int64_t *other = NULL;
  void *memory = NULL;
  const size_t bytes = call->dims.size;
  if (last && last->key_size == call->key.size && bytes) {
    NABLA_TRY(nabla_alloc(function->allocator, 1, bytes, &memory, diag));
    other = memory;
    memcpy(other, last->key + last->key_size - bytes, bytes);
    g.other = other;
    (void)!nabla_tree_visit(call->arguments, find_growth, &g, NULL);
  }
  nabla_free(function->allocator, memory, 1, bytes);
  const nabla_status status =
      nabla_fail(diag, NABLA_TOO_LARGE,
                 "the function %s was traced for %" PRIu64 " signatures%s%s",
                 function->options.name, function->counts.misses,
                 *g.text ? ": " : "", g.text);
  nabla_diag_set_next(diag,
                      "name the dimension in nabla_function_options.dims, or "
                      "set max_traces");
  return status;
}

static void add_counts(nabla_function *function, const nabla_traced *traced) {
  function->counts.materializations += traced->counts.materializations;
  function->counts.rules += traced->counts.replaced;
  function->counts.declined += traced->counts.declined;
  function->counts.fused += traced->counts.fused;
}

static nabla_status trace_new(const nabla_function_arguments *call,
                              XXH128_hash_t hash, nabla_traced **out,
                              nabla_diag *diag) {
  nabla_function *function = call->function;
  nabla_traced *traced;
  if (function->counts.misses >= function->options.max_traces)
    return refuse_growth(call, diag);
  NABLA_TRY(add(function, hash, &call->key, &traced, diag));
  traced->users = 1;
  function->counts.misses++;
  pthread_mutex_unlock(&function->lock);
  const double start = nabla_milliseconds();
  const nabla_status status = nabla_function_trace(call, traced, diag);
  const double spent = nabla_milliseconds() - start;
  pthread_mutex_lock(&function->lock);
  function->counts.compile_ms += spent;
  traced->state = status ? NABLA_SIGNATURE_FAILED : NABLA_SIGNATURE_READY;
  pthread_cond_broadcast(&function->changed);
  if (status) {
    traced->bytes = 0;
    remove_traced(function, traced);
    give(function, traced);
    return status;
  }
  function->counts.bytes += traced->bytes;
  add_counts(function, traced);
  *out = traced;
  return NABLA_OK;
}

nabla_status nabla_function_add_saved(nabla_function *function,
                                      const uint8_t *key, size_t key_size,
                                      nabla_traced **out, nabla_diag *diag) {
  const nabla_buffer bytes = {.data = (uint8_t *)key, .size = key_size};
  const XXH128_hash_t hash = XXH3_128bits(key, key_size);
  if (!key_size || find(function, hash, &bytes))
    return nabla_fail(diag, NABLA_CORRUPT,
                      "a signature without a key, or one that is there twice");
  NABLA_TRY(add(function, hash, &bytes, out, diag));
  (*out)->state = NABLA_SIGNATURE_SAVED;
  return NABLA_OK;
}

/* Compares what the file says of a signature with the trees of a call. */
static nabla_status check_saved(const nabla_function_arguments *call,
                                const nabla_traced *traced, nabla_diag *diag) {
  if (traced->argument_count == call->count &&
      (call->has_open || traced->result_count == call->result_count))
    return NABLA_OK;
  return nabla_fail(diag, NABLA_CORRUPT,
                    "the file of the function %s: a signature with a key of "
                    "another number of arguments or results",
                    call->function->options.name);
}

/* Compiles a signature that was loaded, which has a user; the lock is held. It
 * is given back after a failure. */
static nabla_status compile_saved(const nabla_function_arguments *call,
                                  nabla_traced *traced, nabla_diag *diag) {
  nabla_function *function = call->function;
  nabla_status status = check_saved(call, traced, diag);
  traced->state = NABLA_SIGNATURE_TRACING;
  pthread_mutex_unlock(&function->lock);
  const double start = nabla_milliseconds();
  if (!status) status = nabla_function_compile_saved(function, traced, diag);
  const double spent = nabla_milliseconds() - start;
  pthread_mutex_lock(&function->lock);
  function->counts.compile_ms += spent;
  traced->state = status ? NABLA_SIGNATURE_SAVED : NABLA_SIGNATURE_READY;
  pthread_cond_broadcast(&function->changed);
  if (status) {
    traced->bytes = 0;
    give(function, traced);
    return status;
  }
  function->counts.bytes += traced->bytes;
  add_counts(function, traced);
  return NABLA_OK;
}

static nabla_status take(const nabla_function_arguments *call,
                         nabla_traced **out, nabla_diag *diag) {
  nabla_function *function = call->function;
  const XXH128_hash_t hash = XXH3_128bits(call->key.data, call->key.size);
  for (;;) {
    nabla_traced *traced = find_call(call, hash);
    if (!traced)
      return function->is_loaded ? nabla_function_refuse_unsaved(call, diag)
                                 : trace_new(call, hash, out, diag);
    traced->users++;
    while (traced->state == NABLA_SIGNATURE_TRACING)
      pthread_cond_wait(&function->changed, &function->lock);
    if (traced->state == NABLA_SIGNATURE_SAVED) {
      const nabla_status status = compile_saved(call, traced, diag);
      if (status) return status;
    }
    if (traced->state == NABLA_SIGNATURE_READY) {
      function->counts.hits++;
      make_newest(function, traced);
      *out = traced;
      return NABLA_OK;
    }
    give(function, traced);
  }
}

nabla_status nabla_function_find_saved(const nabla_function_arguments *call,
                                       const nabla_traced **out,
                                       nabla_diag *diag) {
  nabla_function *function = call->function;
  const XXH128_hash_t hash = XXH3_128bits(call->key.data, call->key.size);
  pthread_mutex_lock(&function->lock);
  const nabla_traced *traced = find_call(call, hash);
  const nabla_status status = traced
                                  ? check_saved(call, traced, diag)
                                  : nabla_function_refuse_unsaved(call, diag);
  pthread_mutex_unlock(&function->lock);
  *out = traced;
  return status;
}

nabla_status nabla_function_take(const nabla_function_arguments *call,
                                 nabla_traced **out, nabla_diag *diag) {
  pthread_mutex_lock(&call->function->lock);
  const nabla_status status = take(call, out, diag);
  pthread_mutex_unlock(&call->function->lock);
  return status;
}
