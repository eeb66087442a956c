/* Engines; see engine.h. */
#include "lib/array/engine.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "lib/array/ranks.h"
#include "lib/array/watch.h"
#include "lib/base/require.h"
#include "lib/compiler/bytecode.h"
#include "lib/compiler/codegen.h"
#include "lib/compiler/context.h"

#define DEFAULT_PROGRAMS  ((size_t)1024)
#define DEFAULT_BYTES     ((uint64_t)256 << 20)
#define DEFAULT_COMPILERS ((uint32_t)2)
#define BUCKETS           ((size_t)1024)
#define MAX_IDLE          ((size_t)8) /* recorders that are kept */
#define BYTECODE_LIMIT    ((size_t)1 << 30)

typedef enum program_state { COMPILING, READY, FAILED } program_state;

struct nabla_program {
  XXH128_hash_t hash;
  uint8_t *key; /* a copy */
  size_t key_size;
  program_state state;
  bool is_kept; /* in the table */
  uint32_t users;
  uint64_t bytes;
  nabla_array_policy policy;
  nabla_dispatch_counts counts;
  nabla_executable *executable;
  _Atomic(nabla_session *) session; /* idle, or NULL */
  _Atomic(nabla_ranks *) ranks;     /* of a divided program: idle, or NULL */
  const nabla_allocator *allocator;
  nabla_comm *comm;             /* of the engine, or NULL */
  nabla_program *chain;         /* of its bucket */
  nabla_program *newer, *older; /* by last use   */
};

struct nabla_engine {
  nabla_environment environment;
  size_t max_programs;
  uint64_t max_bytes;
  uint32_t max_compilers;
  nabla_comm *comm;   /* or NULL */
  nabla_watch *watch; /* or NULL */
  nabla_compiler_options compiler;
  nabla_compile_options compile;
  pthread_mutex_t lock;   /* of all below */
  pthread_cond_t changed; /* a program is ready, a compiler is free */
  nabla_program *buckets[BUCKETS];
  nabla_program *newest, *oldest;
  nabla_recorder *idle[MAX_IDLE];
  size_t idle_count;
  nabla_compiler **compilers; /* the idle ones first */
  uint32_t compiler_count, compiler_idle;
  nabla_engine_statistics counts;
};

const nabla_environment *nabla_engine_environment(const nabla_engine *engine) {
  return &engine->environment;
}

const nabla_allocator *nabla_engine_allocator(const nabla_engine *engine) {
  return engine->environment.allocator;
}

nabla_watch *nabla_engine_watch(const nabla_engine *engine) {
  return engine->watch;
}

/* ---- policies ---- */

static const char *const policies[] = {NULL, "off", "warn", "error"};

nabla_status nabla_array_policy_read(const char *text, nabla_array_policy *out,
                                     nabla_diag *diag) {
  *out = NABLA_ARRAY_POLICY_DEFAULT;
  if (!text) return NABLA_OK;
  for (int i = 1; i < 4; i++)
    if (!strcmp(text, policies[i])) {
      *out = (nabla_array_policy)i;
      return NABLA_OK;
    }
  const nabla_status status =
      nabla_fail(diag, NABLA_INVALID_ARGUMENT, "unknown policy '%.60s'", text);
  nabla_diag_set_next(diag, "legal are off, warn, error");
  return status;
}

/* ---- life ---- */

static nabla_status read_options(nabla_engine *engine,
                                 const nabla_engine_options *options,
                                 nabla_diag *diag) {
  static const nabla_engine_options defaults = {.struct_size = sizeof defaults};
  if (!options) options = &defaults;
  NABLA_REQUIRE_SIZE(options, "engine options", diag);
  if (options->compiler)
    NABLA_REQUIRE_SIZE(options->compiler, "compiler options", diag);
  if (options->compile)
    NABLA_REQUIRE_SIZE(options->compile, "compile options", diag);
  engine->max_programs =
      options->max_programs ? options->max_programs : DEFAULT_PROGRAMS;
  engine->max_bytes = options->max_bytes ? options->max_bytes : DEFAULT_BYTES;
  engine->max_compilers =
      options->compilers ? options->compilers : DEFAULT_COMPILERS;
  engine->comm = options->comm;
  engine->compiler.struct_size = sizeof engine->compiler;
  engine->compile.struct_size = sizeof engine->compile;
  if (options->compiler) engine->compiler = *options->compiler;
  if (options->compile) engine->compile = *options->compile;
  return NABLA_OK;
}

nabla_status nabla_engine_create(const nabla_engine_options *options,
                                 const nabla_environment *environment,
                                 nabla_engine **out, nabla_diag *diag) {
  NABLA_REQUIRE(out, diag);
  const nabla_allocator *allocator =
      environment ? environment->allocator : NULL;
  void *memory, *compilers;
  NABLA_TRY(nabla_alloc(allocator, 1, sizeof(nabla_engine), &memory, diag));
  nabla_engine *engine = memory;
  if (environment) engine->environment = *environment;
  pthread_mutex_init(&engine->lock, NULL);
  pthread_cond_init(&engine->changed, NULL);
  nabla_status status = read_options(engine, options, diag);
  if (!status)
    status = nabla_alloc(allocator, engine->max_compilers,
                         sizeof(nabla_compiler *), &compilers, diag);
  if (!status) engine->compilers = compilers;
  if (status)
    nabla_engine_destroy(engine);
  else
    *out = engine;
  return status;
}

nabla_status nabla_engine_create_debug(const nabla_engine_options *options,
                                       const nabla_environment *environment,
                                       nabla_engine **out, nabla_diag *diag) {
  nabla_engine *engine;
  NABLA_REQUIRE(out, diag);
  NABLA_TRY(nabla_engine_create(options, environment, &engine, diag));
  const nabla_status status =
      nabla_watch_create(engine->environment.allocator, &engine->watch, diag);
  if (status)
    nabla_engine_destroy(engine);
  else
    *out = engine;
  return status;
}

static void free_program(nabla_engine *engine, nabla_program *program) {
  const nabla_allocator *allocator = engine->environment.allocator;
  nabla_session_close(program->session);
  nabla_ranks_close(program->ranks);
  nabla_executable_close(program->executable);
  nabla_free(allocator, program->key, 1, program->key_size);
  nabla_free(allocator, program, 1, sizeof *program);
}

static void remove_program(nabla_engine *engine, nabla_program *program) {
  nabla_program **at = &engine->buckets[program->hash.low64 % BUCKETS];
  while (*at != program) at = &(*at)->chain;
  *at = program->chain;
  if (program->newer) program->newer->older = program->older;
  if (program->older) program->older->newer = program->newer;
  if (engine->newest == program) engine->newest = program->older;
  if (engine->oldest == program) engine->oldest = program->newer;
  engine->counts.programs--;
  engine->counts.bytes -= program->bytes;
  program->newer = program->older = program->chain = NULL;
  program->is_kept = false;
}

void nabla_engine_destroy(nabla_engine *engine) {
  if (!engine) return;
  const nabla_allocator *allocator = engine->environment.allocator;
  while (engine->newest) {
    nabla_program *program = engine->newest;
    remove_program(engine, program);
    free_program(engine, program);
  }
  for (size_t i = 0; i < engine->idle_count; i++)
    nabla_recorder_destroy(engine->idle[i]);
  for (uint32_t i = 0; i < engine->compiler_idle; i++)
    nabla_compiler_destroy(engine->compilers[i]);
  nabla_free(allocator, engine->compilers, engine->max_compilers,
             sizeof(nabla_compiler *));
  pthread_cond_destroy(&engine->changed);
  pthread_mutex_destroy(&engine->lock);
  nabla_watch_close(engine->watch);
  nabla_free(allocator, engine, 1, sizeof *engine);
}

nabla_status nabla_engine_count(nabla_engine *engine,
                                nabla_engine_statistics *out,
                                nabla_diag *diag) {
  NABLA_REQUIRE(engine, diag);
  NABLA_REQUIRE(out, diag);
  NABLA_REQUIRE_SIZE(out, "engine statistics", diag);
  pthread_mutex_lock(&engine->lock);
  *out = engine->counts;
  pthread_mutex_unlock(&engine->lock);
  out->struct_size = sizeof *out;
  return NABLA_OK;
}

/* ---- recorders ---- */

nabla_status nabla_engine_take_recorder(nabla_engine *engine,
                                        nabla_recorder **out,
                                        nabla_diag *diag) {
  nabla_recorder *recorder = NULL;
  pthread_mutex_lock(&engine->lock);
  if (engine->idle_count) recorder = engine->idle[--engine->idle_count];
  pthread_mutex_unlock(&engine->lock);
  if (!recorder)
    NABLA_TRY(
        nabla_recorder_create(engine->environment.allocator, &recorder, diag));
  *out = recorder;
  return NABLA_OK;
}

void nabla_engine_give_recorder(nabla_engine *engine,
                                nabla_recorder *recorder) {
  pthread_mutex_lock(&engine->lock);
  const bool is_kept = engine->idle_count < MAX_IDLE;
  if (is_kept) engine->idle[engine->idle_count++] = recorder;
  pthread_mutex_unlock(&engine->lock);
  if (!is_kept) nabla_recorder_destroy(recorder);
}

/* ---- compilers ---- */

/* Takes a compiler back, or, where it is NULL, the place of one that could not
 * be made. Threads wait for either. The lock is held. */
static void give_compiler(nabla_engine *engine, nabla_compiler *compiler) {
  if (compiler)
    engine->compilers[engine->compiler_idle++] = compiler;
  else
    engine->compiler_count--;
  pthread_cond_broadcast(&engine->changed);
}

/* Lends a compiler; the lock is held. */
static nabla_status take_compiler(nabla_engine *engine, nabla_compiler **out,
                                  nabla_diag *diag) {
  while (!engine->compiler_idle &&
         engine->compiler_count == engine->max_compilers)
    pthread_cond_wait(&engine->changed, &engine->lock);
  if (engine->compiler_idle) {
    *out = engine->compilers[--engine->compiler_idle];
    return NABLA_OK;
  }
  engine->compiler_count++;
  pthread_mutex_unlock(&engine->lock);
  const nabla_status status =
      nabla_compiler_create(&engine->compiler, &engine->environment, out, diag);
  pthread_mutex_lock(&engine->lock);
  if (status) give_compiler(engine, NULL);
  return status;
}

/* Puts the compiler's first error into the failure of a program that was
 * recorded: who recorded it has no text of the program to look into. */
static nabla_status explain(nabla_compiler *compiler, nabla_status status,
                            nabla_diag *diag) {
  const char *error = nabla_compiler_context(compiler)->error;
  if (status != NABLA_CORRUPT || !*error) return status;
  return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                    "the program cannot be compiled: %s", error);
}

/* Compiles outside the lock, which is held before and after. */
static nabla_status compile(nabla_engine *engine, nabla_program *program,
                            const nabla_program_writer *writer,
                            nabla_diag *diag) {
  nabla_compiler *compiler;
  nabla_buffer bytecode;
  NABLA_TRY(take_compiler(engine, &compiler, diag));
  pthread_mutex_unlock(&engine->lock);
  const double start = nabla_milliseconds();
  nabla_buffer_init(&bytecode, engine->environment.allocator, "a graph",
                    BYTECODE_LIMIT);
  size_t code = 0;
  nabla_compile_options options = engine->compile;
  if (writer->policy) options.policy = policies[writer->policy];
  if (!writer->has_sessions) options.results = "divided";
  nabla_status status = writer->write(writer->self, &bytecode, diag);
  if (!status)
    status =
        nabla_compile_bytecode(compiler, bytecode.data, bytecode.size, &options,
                               &program->executable, &code, diag);
  status = explain(compiler, status, diag);
  const nabla_compile_report report = nabla_compiler_last_report(compiler);
  program->counts = (nabla_dispatch_counts){
      report.materializations, report.rules, report.declined, report.fused};
  program->bytes = sizeof *program + program->key_size + bytecode.size + code;
  nabla_buffer_deinit(&bytecode);
  const double spent = nabla_milliseconds() - start;
  pthread_mutex_lock(&engine->lock);
  give_compiler(engine, compiler);
  engine->counts.compile_ms += spent;
  return status;
}

nabla_status nabla_engine_emit(nabla_engine *engine, const nabla_buffer *text,
                               const char *name,
                               const nabla_compile_options *options,
                               nabla_array_policy policy,
                               nabla_emission emission, const nabla_sink *sink,
                               nabla_diag *diag) {
  nabla_compiler *compiler;
  nabla_compile_options used = options ? *options : engine->compile;
  if (policy && (!options || !used.policy)) used.policy = policies[policy];
  pthread_mutex_lock(&engine->lock);
  nabla_status status = take_compiler(engine, &compiler, diag);
  pthread_mutex_unlock(&engine->lock);
  if (status) return status;
  status = nabla_emit_text(compiler, (const char *)text->data, text->size, name,
                           &used, emission, sink, diag);
  status = explain(compiler, status, diag);
  pthread_mutex_lock(&engine->lock);
  give_compiler(engine, compiler);
  pthread_mutex_unlock(&engine->lock);
  return status;
}

/* ---- programs ---- */

nabla_dispatch_counts nabla_program_counts(const nabla_program *program) {
  return program->counts;
}

uint64_t nabla_program_bytes(const nabla_program *program) {
  return program->bytes;
}

nabla_executable *nabla_program_executable(const nabla_program *program) {
  return program->executable;
}

nabla_status nabla_program_take_session(nabla_program *program,
                                        nabla_session **out, nabla_diag *diag) {
  *out = atomic_exchange(&program->session, NULL);
  return *out ? NABLA_OK
              : nabla_session_create(program->executable, NULL, out, diag);
}

void nabla_program_give_session(nabla_program *program,
                                nabla_session *session) {
  nabla_session *none = NULL;
  if (!atomic_compare_exchange_strong(&program->session, &none, session))
    nabla_session_close(session);
}

bool nabla_program_is_divided(const nabla_program *program) {
  return nabla_ranks_count(program->executable) != 0;
}

nabla_status nabla_program_take_ranks(nabla_program *program, nabla_ranks **out,
                                      nabla_diag *diag) {
  *out = atomic_exchange(&program->ranks, NULL);
  return *out ? NABLA_OK
              : nabla_ranks_open(program->executable, program->comm,
                                 program->allocator, out, diag);
}

void nabla_program_give_ranks(nabla_program *program, nabla_ranks *ranks,
                              nabla_status status) {
  nabla_ranks *none = NULL;
  if (status || !atomic_compare_exchange_strong(&program->ranks, &none, ranks))
    nabla_ranks_close(ranks);
}

static nabla_program *find(const nabla_engine *engine,
                           const nabla_graph_key *key,
                           nabla_array_policy policy) {
  nabla_program *program = engine->buckets[key->hash.low64 % BUCKETS];
  while (program &&
         !(XXH128_isEqual(program->hash, key->hash) &&
           program->policy == policy && program->key_size == key->size &&
           !memcmp(program->key, key->bytes, key->size)))
    program = program->chain;
  return program;
}

static void make_newest(nabla_engine *engine, nabla_program *program) {
  if (engine->newest == program) return;
  if (program->newer) program->newer->older = program->older;
  if (program->older) program->older->newer = program->newer;
  if (engine->oldest == program) engine->oldest = program->newer;
  program->newer = NULL;
  program->older = engine->newest;
  if (engine->newest) engine->newest->newer = program;
  engine->newest = program;
  if (!engine->oldest) engine->oldest = program;
}

static nabla_status add_program(nabla_engine *engine,
                                const nabla_graph_key *key, nabla_program **out,
                                nabla_diag *diag) {
  const nabla_allocator *allocator = engine->environment.allocator;
  void *memory, *bytes;
  NABLA_TRY(nabla_alloc(allocator, 1, sizeof(nabla_program), &memory, diag));
  const nabla_status status =
      nabla_alloc(allocator, 1, key->size, &bytes, diag);
  if (status) nabla_free(allocator, memory, 1, sizeof(nabla_program));
  if (status) return status;
  nabla_program *program = memory;
  program->hash = key->hash;
  program->key = bytes;
  program->key_size = key->size;
  program->allocator = allocator;
  program->comm = engine->comm;
  memcpy(program->key, key->bytes, key->size);
  program->is_kept = true;
  nabla_program **bucket = &engine->buckets[key->hash.low64 % BUCKETS];
  program->chain = *bucket;
  *bucket = program;
  engine->counts.programs++;
  make_newest(engine, program);
  *out = program;
  return NABLA_OK;
}

/* Frees programs that nobody runs until the bounds are kept. */
static void evict(nabla_engine *engine) {
  nabla_program *program = engine->oldest;
  while (program && (engine->counts.programs > engine->max_programs ||
                     engine->counts.bytes > engine->max_bytes)) {
    nabla_program *newer = program->newer;
    if (!program->users) {
      remove_program(engine, program);
      free_program(engine, program);
      engine->counts.evictions++;
    }
    program = newer;
  }
}

/* Gives back; the lock is held. */
static void give(nabla_engine *engine, nabla_program *program) {
  if (--program->users) return;
  if (!program->is_kept) free_program(engine, program);
  evict(engine);
}

static nabla_status compile_new(nabla_engine *engine,
                                const nabla_graph_key *key,
                                const nabla_program_writer *writer,
                                nabla_program **out, nabla_diag *diag) {
  nabla_program *program;
  NABLA_TRY(add_program(engine, key, &program, diag));
  program->users = 1;
  program->policy = writer->policy;
  engine->counts.misses++;
  const nabla_status status = compile(engine, program, writer, diag);
  program->state = status ? FAILED : READY;
  pthread_cond_broadcast(&engine->changed);
  if (status) {
    program->bytes = 0;
    remove_program(engine, program);
    give(engine, program);
    return status;
  }
  engine->counts.bytes += program->bytes;
  engine->counts.materializations += program->counts.materializations;
  engine->counts.rules += program->counts.replaced;
  engine->counts.declined += program->counts.declined;
  engine->counts.fused += program->counts.fused;
  *out = program;
  return NABLA_OK;
}

static nabla_status take(nabla_engine *engine, const nabla_graph_key *key,
                         const nabla_program_writer *writer,
                         nabla_program **out, nabla_diag *diag) {
  for (;;) {
    nabla_program *program = find(engine, key, writer->policy);
    if (!program) return compile_new(engine, key, writer, out, diag);
    program->users++;
    while (program->state == COMPILING)
      pthread_cond_wait(&engine->changed, &engine->lock);
    if (program->state == READY) {
      engine->counts.hits++;
      make_newest(engine, program);
      *out = program;
      return NABLA_OK;
    }
    give(engine, program);
  }
}

nabla_status nabla_engine_take(nabla_engine *engine, const nabla_graph_key *key,
                               const nabla_program_writer *writer,
                               nabla_program **out, nabla_diag *diag) {
  pthread_mutex_lock(&engine->lock);
  const nabla_status status = take(engine, key, writer, out, diag);
  pthread_mutex_unlock(&engine->lock);
  return status;
}

void nabla_engine_give(nabla_engine *engine, nabla_program *program) {
  pthread_mutex_lock(&engine->lock);
  give(engine, program);
  pthread_mutex_unlock(&engine->lock);
}
