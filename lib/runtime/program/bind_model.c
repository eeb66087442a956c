/* Binding all weights of a model by name: everything that does not fit is
 * found and reported before anything is bound. */
#include <stdio.h>
#include <string.h>

#include "lib/base/memory.h"
#include "lib/base/require.h"
#include "lib/runtime/program/bound_key.h"
#include "lib/runtime/program/executable_internal.h"

typedef struct binder {
  nabla_executable *executable;
  nabla_model *model;
  const nabla_checkpoint *checkpoint;
  const nabla_bind_options *options;
  nabla_bind_summary found;
  uint8_t *is_used; /* for each tensor of the checkpoint */
  char names[160];  /* of arguments that do not fit */
  int named;
  size_t hint; /* of replacement() */
  nabla_diag *diag;
} binder;

static void report(binder *b, nabla_bind_kind kind, const char *name,
                   size_t length, const char *what) {
  b->found.counts[kind]++;
  if (b->options->report)
    b->options->report(b->options->self, kind, name, length, what);
}

/* One that does not fit: for the message, too. */
static void complain(binder *b, nabla_bind_kind kind, const char *name,
                     const char *what) {
  const size_t used = strlen(b->names);
  const size_t length = strlen(name);
  report(b, kind, name, length, what);
  if (used + length + 4 >= sizeof b->names) return;
  (void)snprintf(b->names + used, sizeof b->names - used, "%s'%s'",
                 used ? ", " : "", name);
  b->named++;
}

/* Whether a function before has an argument of that name. */
static int is_seen(const nabla_manifest *manifest, size_t functions,
                   const char *name) {
  for (size_t i = 0; i < functions; i++)
    for (size_t j = 0; j < manifest->functions[i].argument_count; j++)
      if (!strcmp(manifest->functions[i].arguments[j].name, name)) return 1;
  return 0;
}

/* The weight that replaces the tensor `name`, or NULL. Most arguments have the
 * order of the weights: `*hint` is where the last one was. */
static const nabla_weight_desc *replacement(const binder *b, const char *name,
                                            size_t *hint) {
  const nabla_bind_options *o = b->options;
  for (size_t i = 0; i < o->weight_count; i++) {
    const size_t at = (*hint + i) % o->weight_count;
    if (!o->weights[at].name || strcmp(o->weights[at].name, name) != 0)
      continue;
    *hint = at;
    return &o->weights[at];
  }
  return NULL;
}

/* The weight that an argument is bound to: one of the options, or the tensor of
 * its name. */
static nabla_status find(binder *b, const char *name, nabla_weight *out,
                         nabla_diag *diag) {
  const nabla_weight_desc *other = replacement(b, name, &b->hint);
  if (!other) return nabla_model_find(b->model, name, out, diag);
  *out = (nabla_weight){.desc = *other};
  for (uint32_t i = 0; i < other->component_count; i++)
    out->tensor.stored_bytes += other->components[i].bytes;
  return NABLA_OK;
}

/* Looks at one argument; every function that has it is checked. */
static nabla_status check(binder *b, const nabla_port *port, int is_again) {
  nabla_diag why = NABLA_DIAG_INIT;
  nabla_weight weight;
  const size_t index =
      nabla_checkpoint_find(b->checkpoint, port->name, strlen(port->name));
  if (index == SIZE_MAX) {
    if (is_again) return NABLA_OK;
    if (nabla_executable_binding(b->executable, port)->is_bound)
      report(b, NABLA_BIND_BOUND, port->name, strlen(port->name), "");
    else if (port->component_count)
      complain(b, NABLA_BIND_MISSING, port->name, "");
    else if (!*port->encoding_name)
      report(b, NABLA_BIND_INPUT, port->name, strlen(port->name), "");
    return NABLA_OK;
  }
  b->is_used[index] = 1;
  NABLA_TRY(find(b, port->name, &weight, b->diag));
  if (nabla_executable_check_fit(port, &weight.desc, &why)) {
    complain(b, NABLA_BIND_DIFFERS, port->name, why.what);
  } else if (!is_again) {
    report(b, NABLA_BIND_BOUND, port->name, strlen(port->name), "");
    b->found.bound_bytes += weight.tensor.stored_bytes;
    b->found.copied_bytes += weight.copied_bytes;
  }
  return NABLA_OK;
}

static nabla_status check_all(binder *b) {
  const nabla_manifest *manifest = &b->executable->manifest;
  for (size_t i = 0; i < manifest->function_count; i++) {
    const nabla_signature *function = &manifest->functions[i];
    for (size_t j = 0; j < function->argument_count; j++) {
      const nabla_port *port = &function->arguments[j];
      if (port->is_donated)
        report(b, NABLA_BIND_INPUT, port->name, strlen(port->name), "");
      else if (!*port->state_name)
        NABLA_TRY(check(b, port, is_seen(manifest, i, port->name)));
    }
  }
  const size_t count = nabla_checkpoint_count(b->checkpoint);
  for (size_t i = 0; i < count; i++) {
    const nabla_tensor tensor = nabla_checkpoint_tensor(b->checkpoint, i);
    if (!b->is_used[i])
      report(b, NABLA_BIND_UNUSED, tensor.name, tensor.name_length, "");
  }
  return NABLA_OK;
}

/* The numbers, and names as far as they go. */
static nabla_status fail(const binder *b) {
  const size_t missing = b->found.counts[NABLA_BIND_MISSING],
               differ = b->found.counts[NABLA_BIND_DIFFERS];
  const size_t rest = missing + differ - (size_t)b->named;
  char more[40] = "";
  if (rest) (void)snprintf(more, sizeof more, " and %zu more", rest);
  const nabla_status status =
      nabla_fail(b->diag, NABLA_INVALID_ARGUMENT,
                 "%zu arguments have no tensor, %zu differ from theirs: %s%s",
                 missing, differ, b->names, more);
  nabla_diag_set_file(b->diag, nabla_checkpoint_borrow_path(b->checkpoint));
  nabla_diag_set_next(b->diag,
                      "nabla-quant inspect lists the tensors; a program is "
                      "written for one packing of a model");
  return status;
}

/* Finding again gives the same: copies of components are kept. */
static nabla_status bind_all(binder *b) {
  const nabla_manifest *manifest = &b->executable->manifest;
  for (size_t i = 0; i < manifest->function_count; i++) {
    const nabla_signature *function = &manifest->functions[i];
    for (size_t j = 0; j < function->argument_count; j++) {
      const nabla_port *port = &function->arguments[j];
      nabla_weight weight;
      if (*port->state_name || port->is_donated ||
          nabla_checkpoint_find(b->checkpoint, port->name,
                                strlen(port->name)) == SIZE_MAX)
        continue;
      NABLA_TRY(find(b, port->name, &weight, b->diag));
      nabla_executable_take(nabla_executable_binding(b->executable, port),
                            &weight.desc);
      nabla_bound_key_add(b->executable, port->name, &weight.desc);
    }
  }
  nabla_bound_key_add_files(b->executable, b->checkpoint);
  return NABLA_OK;
}

nabla_status nabla_executable_bind_model(nabla_executable *executable,
                                         nabla_model *model,
                                         const nabla_bind_options *options,
                                         nabla_bind_summary *out,
                                         nabla_diag *diag) {
  static const nabla_bind_options defaults = {.struct_size = sizeof defaults};
  NABLA_REQUIRE(executable, diag);
  NABLA_REQUIRE(model, diag);
  if (!options) options = &defaults;
  NABLA_REQUIRE_SIZE(options, "nabla_bind_options", diag);
  if (options->weight_count) NABLA_REQUIRE(options->weights, diag);
  NABLA_TRY(nabla_executable_check_open(executable, diag));
  binder b = {.executable = executable,
              .model = model,
              .checkpoint = nabla_model_borrow_checkpoint(model),
              .options = options,
              .diag = diag};
  const nabla_allocator *allocator = executable->environment.allocator;
  const size_t count = nabla_checkpoint_count(b.checkpoint);
  void *is_used;
  NABLA_TRY(nabla_alloc(allocator, count, 1, &is_used, diag));
  b.is_used = is_used;
  nabla_status status = check_all(&b);
  if (!status && out) *out = b.found;
  if (!status && (b.found.counts[NABLA_BIND_MISSING] ||
                  b.found.counts[NABLA_BIND_DIFFERS]))
    status = fail(&b);
  if (!status) status = bind_all(&b);
  nabla_free(allocator, is_used, count, 1);
  return status;
}
