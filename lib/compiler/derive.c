/* nabla_derive_text: passes that make functions beside functions, by name. */
#include <ctype.h>
#include <string.h>

#include "lib/base/require.h"
#include "lib/base/thread.h"
#include "lib/compiler/context.h"
#include "lib/kernels/builder/text.h"
#include "nabla/compiler.h"

#define PROGRAM_LIMIT ((size_t)1 << 30)

/* A call, which runs on a thread with a larger stack. */
typedef struct derivation_call {
  nabla_context *context;
  nabla_text pipeline;
  const char *text, *name;
  size_t size;
  nabla_buffer out;
  nabla_status status;
  nabla_diag *diag;
} derivation_call;

/* ---- the pipeline ---- */

/* Options of the transforms, by number of the transform. */
static const char *const transforms[] = {"vjp", "jvp", "vmap"};
enum { VJP = 1, JVP = 2, VMAP = 4 };

static nabla_status refuse(const nabla_derivation *d, const char *option,
                           const char *why, nabla_diag *diag) {
  return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                    "the derivation '%.20s' of '%.60s': %s %s", d->transform,
                    d->function ? d->function : "main", option, why);
}

/* Adds " OPTION=VALUE"; `has`: the transforms that have the option. */
static nabla_status add_option(nabla_text *out, const nabla_derivation *d,
                               int transform, int has, const char *option,
                               const char *value, nabla_diag *diag) {
  if (!value) return NABLA_OK;
  if (!(has & transform))
    return refuse(d, option, "is an option of other transforms", diag);
  for (const char *at = value; *at; at++)
    if (!isalnum((unsigned char)*at) && !strchr("_.,-?", *at))
      return refuse(d, option,
                    "has characters other than letters, digits and _.,-?",
                    diag);
  if (*value) nabla_text_add(out, " %s=%s", option, value);
  return NABLA_OK;
}

static nabla_status add_pass(nabla_text *out, const nabla_derivation *d,
                             nabla_diag *diag) {
  int transform = 0;
  NABLA_REQUIRE_SIZE(d, "a derivation", diag);
  NABLA_REQUIRE(d->transform, diag);
  for (int i = 0; i < 3; i++)
    if (!strcmp(d->transform, transforms[i])) transform = 1 << i;
  if (!transform)
    return refuse(d, "the transform", "is none of vjp, jvp, vmap", diag);
  const struct {
    const char *option, *value;
    int has;
  } rows[] = {
      {"function", d->function ? d->function : "main", VJP | JVP | VMAP},
      {"wrt", d->wrt, VJP | JVP},
      {"mode", d->mode, VJP},
      {"save", d->save, VJP},
      {"check-finite", d->check_finite, VJP},
      {"in-axes", d->in_axes, VMAP},
      {"out-axes", d->out_axes, VMAP},
      {"axis-size", d->axis_size, VMAP},
  };
  nabla_text_add(out, "nabla-%s{", d->transform);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    NABLA_TRY(add_option(out, d, transform, rows[i].has, rows[i].option,
                         rows[i].value, diag));
  nabla_text_add(out, "}");
  return NABLA_OK;
}

static nabla_status write_pipeline(nabla_text *out,
                                   const nabla_derivation *derivations,
                                   size_t count, nabla_diag *diag) {
  nabla_text_add(out, "builtin.module(");
  for (size_t i = 0; i < count; i++) {
    if (i) nabla_text_add(out, ",");
    NABLA_TRY(add_pass(out, &derivations[i], diag));
  }
  nabla_text_add(out, ")");
  return out->failed ? nabla_fail(diag, NABLA_NO_MEMORY, "no memory")
                     : NABLA_OK;
}

/* ---- the call ---- */

static nabla_status derive(derivation_call *c, const char *text) {
  MlirModule module;
  NABLA_TRY(nabla_context_begin(c->context, c->name, c->diag));
  NABLA_TRY(nabla_context_parse(c->context, text, c->size, &module, c->diag));
  nabla_status status =
      nabla_context_run(c->context, module, c->pipeline.data, c->diag);
  if (!status)
    status =
        nabla_context_print(mlirModuleGetOperation(module), &c->out, c->diag);
  mlirModuleDestroy(module);
  return status;
}

static void run(void *self) {
  derivation_call *c = self;
  nabla_buffer copy; /* with a NUL */
  nabla_buffer_init(&copy, NULL, "a program", PROGRAM_LIMIT);
  c->status = c->size ? nabla_buffer_append(&copy, c->text, c->size, c->diag)
                      : NABLA_OK;
  if (!c->status) c->status = nabla_buffer_append(&copy, "", 1, c->diag);
  if (!c->status) c->status = derive(c, (const char *)copy.data);
  nabla_buffer_deinit(&copy);
}

nabla_status nabla_derive_text(nabla_compiler *compiler, const char *text,
                               size_t size, const char *name,
                               const nabla_derivation *derivations,
                               size_t count, const nabla_sink *sink,
                               nabla_diag *diag) {
  NABLA_REQUIRE(compiler, diag);
  if (size) NABLA_REQUIRE(text, diag);
  NABLA_REQUIRE(name, diag);
  if (count) NABLA_REQUIRE(derivations, diag);
  NABLA_REQUIRE(sink, diag);
  derivation_call c = {.context = nabla_compiler_context(compiler),
                       .text = text,
                       .name = name,
                       .size = size,
                       .diag = diag};
  nabla_buffer_init(&c.out, NULL, "a program", SIZE_MAX / 2);
  nabla_status status = write_pipeline(&c.pipeline, derivations, count, diag);
  if (!status) status = nabla_stack_run(run, &c, diag);
  if (!status) status = c.status;
  if (!status) status = sink->write(sink->self, c.out.data, c.out.size, diag);
  nabla_buffer_deinit(&c.out);
  nabla_text_deinit(&c.pipeline);
  return status;
}
