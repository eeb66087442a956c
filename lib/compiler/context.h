/* MLIR's side of a compiler: context, diagnostics, parsing, passes. Functions
 * are defined in context.c and compiler.c. */
#ifndef NABLA_COMPILER_CONTEXT_H
#define NABLA_COMPILER_CONTEXT_H

#include <mlir-c/Diagnostics.h>
#include <mlir-c/IR.h>
#include <mlir-c/Pass.h>

#include "lib/base/memory.h"
#include "nabla/status.h"
#include "transforms/dispatch/rule_set.h"

typedef struct nabla_context {
  MlirContext mlir; /* null: not made yet */
  MlirDiagnosticHandlerID handler;
  uint64_t used; /* bytes of programs that `mlir` has seen */
  /* What ran last, or null: making patterns takes time. */
  MlirPassManager passes;
  char *pipeline;    /* of `passes` */
  size_t rule_count; /* rules from outside that `passes` knows */
  void (*diagnostic)(void *self, const char *text);
  void *diagnostic_self;
  const char *source; /* what the program is called in diagnostics */
  /* Diagnostics of this compilation, for the cache: records of a byte, 1 when
   * the text follows the name of the program, 2 for the counts, and else 0, and
   * the text with its NUL. */
  nabla_buffer recorded;
  nabla_dispatch_counts counts; /* of this compilation */
  int record_failed;            /* no memory for it: do not cache */
  int errors;                   /* of this compilation */
  char error[200]; /* the first one's text, or "", without its place */
} nabla_context;

void nabla_context_init(nabla_context *context,
                        void (*diagnostic)(void *self, const char *text),
                        void *diagnostic_self);
void nabla_context_deinit(nabla_context *context);

/* The context of a compiler. */
typedef struct nabla_compiler nabla_compiler;
nabla_context *nabla_compiler_context(nabla_compiler *compiler);

/* Creates a context in which every dialect is registered, none loaded. */
NABLA_MUST_USE nabla_status nabla_context_create(MlirContext *out,
                                                 nabla_diag *diag);

/* Starts a compilation. MLIR never frees what types and attributes take: the
 * context is made anew from time to time. No module may be alive. */
NABLA_MUST_USE nabla_status nabla_context_begin(nabla_context *context,
                                                const char *source,
                                                nabla_diag *diag);

/* Parses and verifies. NABLA_CORRUPT after diagnostics. `text` ends with a NUL
 * that `size` does not count. */
NABLA_MUST_USE nabla_status nabla_context_parse(nabla_context *context,
                                                const char *text, size_t size,
                                                MlirModule *out,
                                                nabla_diag *diag);

/* Reads and verifies bytecode, which this process wrote. */
NABLA_MUST_USE nabla_status nabla_context_read(nabla_context *context,
                                               const void *bytecode,
                                               size_t size, MlirModule *out,
                                               nabla_diag *diag);

/* Runs the passes of `pipeline`, "builtin.module(...)". NABLA_CORRUPT after
 * diagnostics. */
NABLA_MUST_USE nabla_status nabla_context_run(nabla_context *context,
                                              MlirModule module,
                                              const char *pipeline,
                                              nabla_diag *diag);

/* Appends the text of `op` to `out`. Where there is no memory, `out` has a part
 * of it. */
NABLA_MUST_USE nabla_status nabla_context_print(MlirOperation op,
                                                nabla_buffer *out,
                                                nabla_diag *diag);

/* Makes the next run parse its pipeline: for files that passes read, which may
 * have changed. */
void nabla_context_forget_passes(nabla_context *context);

/* Gives a text to whoever listens to diagnostics. */
void nabla_context_say(const nabla_context *context, const char *text);

/* Gives the diagnostics of `records`, as recorded in an earlier compilation,
 * and takes its counts. */
void nabla_context_replay(nabla_context *context, const uint8_t *records,
                          size_t size);

#endif
