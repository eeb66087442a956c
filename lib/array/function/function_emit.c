/* Programs of functions for elsewhere: compiled from text, with captured arrays
 * as arguments, whose values go to a file, and captured numbers as constants.
 */
#include <stdio.h>

#include "lib/array/function/function.h"
#include "lib/base/require.h"

/* A program that is emitted. */
typedef struct emitting {
  nabla_function *function;
  const nabla_function_emit_options *options;
  nabla_traced *traced; /* given back at the end */
  nabla_buffer text;
  nabla_buffer code; /* with `captured`: kept until that file is there */
  nabla_diag *diag;
} emitting;

/* ---- signatures ---- */

static nabla_status take_called(emitting *e) {
  nabla_function_arguments call = {.function = e->function,
                                   .arguments = e->options->arguments,
                                   .results = e->options->results};
  NABLA_TRY(nabla_function_scope(e->function, "program", &call.scope, e->diag));
  nabla_status status = nabla_function_read(&call, e->diag);
  if (!status && call.count)
    status = nabla_realize(call.scope, call.count, call.leaves, e->diag);
  if (!status) status = nabla_function_take(&call, &e->traced, e->diag);
  nabla_function_unread(&call);
  return status;
}

static nabla_status take_only(emitting *e) {
  e->traced = nabla_function_next(e->function, NULL);
  if (!e->traced)
    return nabla_fail(e->diag, NABLA_INVALID_ARGUMENT,
                      "the function %s has no signature yet: call it, or give "
                      "the trees of a call",
                      e->function->options.name);
  nabla_traced *other = nabla_function_next(e->function, e->traced);
  if (!other) return NABLA_OK;
  nabla_function_give(e->function, other);
  return nabla_fail(e->diag, NABLA_INVALID_ARGUMENT,
                    "the function %s has several signatures: the trees of a "
                    "call say which",
                    e->function->options.name);
}

static nabla_status take(emitting *e) {
  const nabla_function_emit_options *options = e->options;
  if (!options->arguments && !options->results) return take_only(e);
  NABLA_REQUIRE(options->arguments, e->diag);
  NABLA_REQUIRE(options->results, e->diag);
  return take_called(e);
}

nabla_status nabla_function_describe(nabla_function *function, size_t index,
                                     nabla_function_signature *out,
                                     nabla_diag *diag) {
  NABLA_REQUIRE(function, diag);
  NABLA_REQUIRE(out, diag);
  NABLA_REQUIRE_SIZE(out, "a signature", diag);
  nabla_traced *traced = nabla_function_next(function, NULL);
  size_t at = 0;
  for (; traced && at < index; at++) {
    nabla_traced *next = nabla_function_next(function, traced);
    nabla_function_give(function, traced);
    traced = next;
  }
  if (!traced)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "the function %s has %zu signature%s",
                      function->options.name, at, at == 1 ? "" : "s");
  out->argument_count = traced->argument_count;
  out->captured_count = traced->capture_count;
  out->result_count = traced->result_count;
  nabla_function_give(function, traced);
  return NABLA_OK;
}

/* ---- captured arrays ---- */

/* The memory of a tree of captured arrays by name. */
typedef struct captured_tree {
  nabla_tree *items;
  const char **names;
  char (*texts)[32];
} captured_tree;

static nabla_status write_captured(const emitting *e, const captured_tree *c) {
  const nabla_traced *traced = e->traced;
  size_t count = 0;
  for (size_t i = 0; i < traced->capture_count; i++) {
    if (nabla_traced_is_number(traced, i)) continue;
    char *text = c->texts[count];
    (void)snprintf(text, sizeof *c->texts, NABLA_CAPTURED_NAME, count);
    c->names[count] = text;
    c->items[count++] = nabla_tree_of_array(traced->captures[i]);
  }
  const nabla_tree tree = nabla_tree_of_fields(count, c->names, c->items);
  return nabla_tree_write(&tree, e->options->captured, e->options->force,
                          nabla_engine_environment(e->function->engine),
                          e->diag);
}

static nabla_status check_captured(const emitting *e) {
  if (!e->options->captured || nabla_traced_array_count(e->traced))
    return NABLA_OK;
  return nabla_fail(e->diag, NABLA_INVALID_ARGUMENT,
                    "the function %s captures no arrays%s: there is nothing "
                    "to write to %.180s",
                    e->function->options.name,
                    e->traced->capture_count
                        ? ", and its numbers are constants of the program"
                        : "",
                    e->options->captured);
}

static nabla_status save_captured(const emitting *e) {
  void *items = NULL, *names = NULL, *texts = NULL;
  const nabla_allocator *allocator = e->function->allocator;
  const size_t count = nabla_traced_array_count(e->traced);
  nabla_status status =
      nabla_alloc(allocator, count, sizeof(nabla_tree), &items, e->diag);
  if (!status)
    status = nabla_alloc(allocator, count, sizeof(char *), &names, e->diag);
  if (!status)
    status = nabla_alloc(allocator, count, sizeof(char[32]), &texts, e->diag);
  const captured_tree tree = {items, names, texts};
  if (!status) status = write_captured(e, &tree);
  nabla_free(allocator, items, count, sizeof(nabla_tree));
  nabla_free(allocator, names, count, sizeof(char *));
  nabla_free(allocator, texts, count, sizeof(char[32]));
  return status;
}

/* ---- programs ---- */

static nabla_status add_bytes(void *self, const void *data, size_t size,
                              nabla_diag *diag) {
  return nabla_buffer_append(self, data, size, diag);
}

static nabla_status write_text(emitting *e) {
  nabla_recorder *recorder;
  const nabla_sink sink = {add_bytes, &e->text};
  NABLA_TRY(
      nabla_engine_take_recorder(e->function->engine, &recorder, e->diag));
  const nabla_status status = nabla_traced_print(
      e->function, e->traced, recorder, true, &sink, e->diag);
  nabla_engine_give_recorder(e->function->engine, recorder);
  return status;
}

static nabla_status compile(emitting *e, nabla_emission emission,
                            const nabla_sink *sink) {
  const nabla_function *function = e->function;
  return nabla_engine_emit(function->engine, &e->text, function->options.name,
                           e->options->compile, e->traced->policy, emission,
                           sink, e->diag);
}

/* A program that cannot be compiled leaves no file of captured arrays, and a
 * file that cannot be written gives the sink nothing. */
static nabla_status write_both(emitting *e, nabla_emission emission,
                               const nabla_sink *sink) {
  const nabla_sink kept = {add_bytes, &e->code};
  if (!e->options->captured) return compile(e, emission, sink);
  NABLA_TRY(compile(e, emission, &kept));
  NABLA_TRY(save_captured(e));
  return sink->write(sink->self, e->code.data, e->code.size, e->diag);
}

nabla_status nabla_function_emit(nabla_function *function,
                                 nabla_emission emission,
                                 const nabla_function_emit_options *options,
                                 const nabla_sink *sink, nabla_diag *diag) {
  static const nabla_function_emit_options defaults = {.struct_size =
                                                           sizeof defaults};
  NABLA_REQUIRE(function, diag);
  NABLA_REQUIRE(sink, diag);
  if (!options) options = &defaults;
  NABLA_REQUIRE_SIZE(options, "options of a program", diag);
  emitting e = {.function = function, .options = options, .diag = diag};
  nabla_buffer_init(&e.text, function->allocator, "a program", SIZE_MAX / 2);
  nabla_buffer_init(&e.code, function->allocator, "a program", SIZE_MAX / 2);
  nabla_status status = take(&e);
  if (!status) status = check_captured(&e);
  if (!status) status = write_text(&e);
  if (!status) status = write_both(&e, emission, sink);
  if (e.traced) nabla_function_give(function, e.traced);
  nabla_buffer_deinit(&e.text);
  nabla_buffer_deinit(&e.code);
  return status;
}
