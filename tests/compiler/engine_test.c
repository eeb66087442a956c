/* Compilers of an engine, for which threads wait. Linked with --wrap=calloc,
 * which makes the compiler of a chosen thread fail. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "nabla/array.h"
#include "nabla/function.h"
#include "tests/support/temp_folder.h"

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

static _Thread_local bool is_failing; /* the next call of this thread */
static atomic_bool is_held;           /* that call is going on */

/* Fails long after the others wait for what it holds. */
void *__wrap_calloc(size_t count, size_t size) {
  static const struct timespec pause = {.tv_nsec = 400000000};
  if (!is_failing) return __real_calloc(count, size);
  is_failing = false;
  atomic_store(&is_held, true);
  (void)nanosleep(&pause, NULL);
  return NULL;
}

static nabla_engine *engine;
static temp_folder folder;
static char file[300]; /* of a function */

static nabla_engine *make_engine(void) {
  const nabla_compiler_options compiler = {.struct_size = sizeof compiler,
                                           .cache = ""};
  const nabla_engine_options options = {
      .struct_size = sizeof options, .compilers = 1, .compiler = &compiler};
  nabla_engine *made;
  cr_assert_eq(nabla_engine_create(&options, NULL, &made, NULL), NABLA_OK);
  return made;
}

static nabla_array *number(nabla_scope *scope) {
  float value = 3;
  const nabla_dense dense = {&value, NABLA_DTYPE_F32, 0, {0}};
  return nabla_array_of(scope, &dense);
}

static void twice(nabla_scope *scope, const nabla_tree *in, nabla_tree *out,
                  void *self) {
  (void)scope, (void)self;
  out->array = nabla_add(in->array, in->array);
}

static void start(void) {
  const nabla_function_options options = {.struct_size = sizeof options,
                                          .name = "twice"};
  nabla_function *function;
  nabla_scope *scope;
  temp_folder_create(&folder);
  temp_folder_path(&folder, "twice.nabla", file);
  engine = make_engine();
  cr_assert_eq(nabla_scope_create(engine, &scope, NULL), NABLA_OK);
  cr_assert_eq(nabla_function_create(engine, twice, &options, &function, NULL),
               NABLA_OK);
  const nabla_tree in = nabla_tree_of_array(number(scope));
  nabla_tree out = nabla_tree_of_array(NULL);
  cr_assert_eq(nabla_function_call(function, &in, &out, NULL), NABLA_OK);
  cr_assert_eq(nabla_function_save(function, file, 0, NULL), NABLA_OK);
  nabla_function_destroy(function);
  nabla_scope_end(scope);
  nabla_engine_destroy(engine);
}

static void end(void) { temp_folder_destroy(&folder); }

TestSuite(engine, .init = start, .fini = end, .timeout = 60);

/* What one thread does with the engine. */
typedef struct work {
  bool fails; /* its compiler; else it begins when the other one has begun */
  bool emits; /* a program; else it computes an array */
  nabla_status status;
} work;

/* A loaded function has no program in the engine yet. */
static nabla_status emit(bool fails) {
  nabla_blob blob = {0};
  nabla_function *function;
  const nabla_sink sink = nabla_blob_sink(&blob);
  cr_assert_eq(nabla_function_load(engine, file, &function, NULL), NABLA_OK);
  is_failing = fails;
  const nabla_status status =
      nabla_function_emit(function, NABLA_EMIT_OBJ, NULL, &sink, NULL);
  cr_expect_eq(blob.size == 0, status != NABLA_OK);
  nabla_blob_release(&blob);
  nabla_function_destroy(function);
  return status;
}

static void *run(void *self) {
  static const struct timespec pause = {.tv_nsec = 1000000};
  work *w = self;
  nabla_scope *scope;
  cr_assert_eq(nabla_scope_create(engine, &scope, NULL), NABLA_OK);
  while (!w->fails && !atomic_load(&is_held)) (void)nanosleep(&pause, NULL);
  if (w->emits) {
    w->status = emit(w->fails);
  } else {
    nabla_array *x = number(scope), *y = nabla_add(x, x);
    is_failing = w->fails;
    w->status = nabla_realize(scope, 1, &y, NULL);
  }
  cr_expect(!is_failing);
  nabla_scope_end(scope);
  return NULL;
}

/* The compiler that the first thread cannot make is the only one: the second
 * thread waits for it, and then makes it. */
Test(engine, a_compiler_that_fails_wakes_who_waits_for_it) {
  for (unsigned i = 0; i < 4; i++) {
    work both[2] = {{.fails = true, .emits = i & 1}, {.emits = i & 2}};
    pthread_t threads[2];
    engine = make_engine();
    atomic_store(&is_held, false);
    for (int k = 0; k < 2; k++)
      cr_assert_eq(pthread_create(&threads[k], NULL, run, &both[k]), 0);
    for (int k = 0; k < 2; k++) cr_assert_eq(pthread_join(threads[k], NULL), 0);
    cr_expect_eq(both[0].status, NABLA_NO_MEMORY, "%u", i);
    cr_expect_eq(both[1].status, NABLA_OK, "%u", i);
    nabla_engine_destroy(engine);
  }
}
