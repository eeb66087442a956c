/* MLIR contexts and their diagnostics; see context.h. */
#include "lib/compiler/context.h"

#include <inttypes.h>
#include <mlir-c/RegisterEverything.h>
#include <mlir-c/Support.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/dialect.h"
#include "lib/base/nesting.h"
#include "lib/compiler/outside.h"
#include "lib/kernels/builder/text.h"
#include "transforms/user_rules/user_rules.h"

#define CONTEXT_BYTES                                       \
  ((uint64_t)64 << 20)   /* of programs, then a new context \
                          */
#define MAX_FUSED     64 /* locations in one, nested or side by side */
#define RECORD_COUNTS 2  /* the kind of a record */
#define RECORD_LIMIT  ((size_t)1 << 20) /* bytes of diagnostics in a cache */

/* ---- diagnostics ---- */

static void add_chunk(MlirStringRef chunk, void *self) {
  nabla_text_add(self, "%.*s", (int)chunk.length, chunk.data);
}

/* The place in a file that a location leads to; null when there is none. */
static MlirLocation find_place(MlirLocation location, int depth) {
  MlirLocation none = {NULL};
  if (depth > MAX_FUSED || mlirLocationIsAFileLineColRange(location))
    return location;
  if (mlirLocationIsAName(location))
    return find_place(mlirLocationNameGetChildLoc(location), depth + 1);
  if (mlirLocationIsACallSite(location))
    return find_place(mlirLocationCallSiteGetCallee(location), depth + 1);
  if (!mlirLocationIsAFused(location)) return none;
  unsigned count = mlirLocationFusedGetNumLocations(location);
  MlirLocation parts[MAX_FUSED];
  if (!count || count > MAX_FUSED) return none;
  mlirLocationFusedGetLocations(location, parts);
  for (unsigned i = 0; i < count; i++) {
    MlirLocation place = find_place(parts[i], depth + 1);
    if (place.ptr && mlirLocationIsAFileLineColRange(place)) return place;
  }
  return none;
}

static const char *severity_name(MlirDiagnosticSeverity severity) {
  switch (severity) {
    case MlirDiagnosticError:
      return "error";
    case MlirDiagnosticWarning:
      return "warning";
    case MlirDiagnosticNote:
      return "note";
    case MlirDiagnosticRemark:
      break;
  }
  return "remark";
}

static void record(nabla_context *context, int in_source, const char *text) {
  uint8_t kind = (uint8_t)in_source;
  if (nabla_buffer_append(&context->recorded, &kind, 1, NULL) ||
      nabla_buffer_append(&context->recorded, text, strlen(text) + 1, NULL))
    context->record_failed = 1;
}

void nabla_context_say(const nabla_context *context, const char *text) {
  if (context->diagnostic)
    context->diagnostic(context->diagnostic_self, text);
  else
    fprintf(stderr, "%s\n", text);
}

/* Prints a diagnostic, after the name of the program if `in_source`. */
static void say(const nabla_context *context, int in_source, const char *text) {
  nabla_text whole = {0};
  nabla_text_add(&whole, "%s%s", in_source ? context->source : "", text);
  nabla_context_say(context, whole.failed ? text : whole.data);
  nabla_text_deinit(&whole);
}

static void report(nabla_context *context, MlirDiagnostic diagnostic) {
  MlirDiagnosticSeverity severity = mlirDiagnosticGetSeverity(diagnostic);
  MlirLocation place = find_place(mlirDiagnosticGetLocation(diagnostic), 0);
  nabla_text text = {0}, message = {0};
  int in_source = 1;
  if (place.ptr && mlirLocationIsAFileLineColRange(place)) {
    /* the parser calls text without a name "-" */
    MlirStringRef file =
        mlirIdentifierStr(mlirLocationFileLineColRangeGetFilename(place));
    in_source = !file.length || (file.length == 1 && *file.data == '-');
    if (!in_source) nabla_text_add(&text, "%.*s", (int)file.length, file.data);
    nabla_text_add(&text, ":%d:%d",
                   mlirLocationFileLineColRangeGetStartLine(place),
                   mlirLocationFileLineColRangeGetStartColumn(place));
  }
  mlirDiagnosticPrint(diagnostic, add_chunk, &message);
  nabla_text_add(&text, ": %s: %s", severity_name(severity),
                 message.data ? message.data : "");
  if (severity == MlirDiagnosticError && !*context->error && message.data)
    (void)snprintf(context->error, sizeof context->error, "%s", message.data);
  /* MLIR adds the whole operation in its generic form: for nabla-opt */
  int wanted = !message.data || severity != MlirDiagnosticNote ||
               strncmp(message.data, "see current operation", 21);
  if (wanted && !text.failed) {
    record(context, in_source, text.data);
    say(context, in_source, text.data);
  }
  nabla_text_deinit(&text);
  nabla_text_deinit(&message);
}

static MlirLogicalResult handle(MlirDiagnostic diagnostic, void *self) {
  nabla_context *context = self;
  if (mlirDiagnosticGetSeverity(diagnostic) == MlirDiagnosticError)
    context->errors++;
  report(context, diagnostic);
  intptr_t count = mlirDiagnosticGetNumNotes(diagnostic);
  for (intptr_t i = 0; i < count; i++)
    report(context, mlirDiagnosticGetNote(diagnostic, i));
  return mlirLogicalResultSuccess();
}

/* ---- counts ---- */

static void record_counts(nabla_context *context) {
  const nabla_dispatch_counts *c = &context->counts;
  char text[100];
  (void)snprintf(text, sizeof text,
                 "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64,
                 c->materializations, c->replaced, c->declined, c->fused);
  record(context, RECORD_COUNTS, text);
}

/* Counts that an entry of the cache does not have are 0. */
static void read_counts(nabla_context *context, const char *text) {
  nabla_dispatch_counts *c = &context->counts;
  uint64_t *const list[] = {&c->materializations, &c->replaced, &c->declined,
                            &c->fused};
  char *at = (char *)(uintptr_t)text;
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    *list[i] = strtoull(at, &at, 10);
}

void nabla_context_replay(nabla_context *context, const uint8_t *records,
                          size_t size) {
  const uint8_t *end = records + size;
  while (records < end) {
    const uint8_t *nul = memchr(records, 0, (size_t)(end - records));
    int in_source = *records;
    if (in_source == 0) /* the kind, not an end */
      nul = memchr(records + 1, 0, (size_t)(end - records - 1));
    if (!nul) return;
    if (in_source == RECORD_COUNTS)
      read_counts(context, (const char *)records + 1);
    else
      say(context, in_source, (const char *)records + 1);
    records = nul + 1;
  }
}

/* ---- contexts ---- */

void nabla_context_init(nabla_context *context,
                        void (*diagnostic)(void *self, const char *text),
                        void *diagnostic_self) {
  *context = (nabla_context){.diagnostic = diagnostic,
                             .diagnostic_self = diagnostic_self};
  nabla_buffer_init(&context->recorded, NULL, "diagnostics", RECORD_LIMIT);
}

void nabla_context_forget_passes(nabla_context *context) {
  if (!mlirPassManagerIsNull(context->passes))
    mlirPassManagerDestroy(context->passes);
  context->passes = (MlirPassManager){NULL};
  free(context->pipeline);
  context->pipeline = NULL;
}

static void destroy(nabla_context *context) {
  nabla_context_forget_passes(context);
  if (!mlirContextIsNull(context->mlir)) mlirContextDestroy(context->mlir);
  context->mlir = (MlirContext){NULL};
  context->used = 0;
}

void nabla_context_deinit(nabla_context *context) {
  destroy(context);
  nabla_buffer_deinit(&context->recorded);
}

/* One registry for the process: registering passes is not thread-safe. */
static MlirDialectRegistry registry;

static void make_registry(void) {
  registry = mlirDialectRegistryCreate();
  nablaRegisterEverything(registry);
}

nabla_status nabla_context_create(MlirContext *out, nabla_diag *diag) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, make_registry);
  *out = mlirContextCreateWithRegistry(registry, false);
  return mlirContextIsNull(*out)
             ? nabla_fail(diag, NABLA_NO_MEMORY, "no memory for a context")
             : NABLA_OK;
}

nabla_status nabla_context_begin(nabla_context *context, const char *source,
                                 nabla_diag *diag) {
  if (context->used > CONTEXT_BYTES) destroy(context);
  if (mlirContextIsNull(context->mlir)) {
    NABLA_TRY(nabla_context_create(&context->mlir, diag));
    mlirRegisterAllLLVMTranslations(context->mlir);
    context->handler = mlirContextAttachDiagnosticHandler(context->mlir, handle,
                                                          context, NULL);
  }
  context->source = source;
  context->errors = context->record_failed = 0;
  *context->error = '\0';
  context->counts = (nabla_dispatch_counts){0};
  context->recorded.size = 0;
  return NABLA_OK;
}

static nabla_status fail(const nabla_context *context, const char *what,
                         nabla_diag *diag) {
  nabla_status status = nabla_fail(diag, NABLA_CORRUPT, "%s", what);
  nabla_diag_set_file(diag, context->source);
  return status;
}

nabla_status nabla_context_parse(nabla_context *context, const char *text,
                                 size_t size, MlirModule *out,
                                 nabla_diag *diag) {
  context->used += size;
  const nabla_status nested = nabla_nesting_check(text, size, diag);
  if (nested) {
    nabla_diag_set_file(diag, context->source);
    return nested;
  }
  *out = mlirModuleCreateParse(context->mlir, mlirStringRefCreate(text, size));
  if (mlirModuleIsNull(*out))
    return fail(context, "the program does not parse or verify", diag);
  return NABLA_OK;
}

nabla_status nabla_context_read(nabla_context *context, const void *bytecode,
                                size_t size, MlirModule *out,
                                nabla_diag *diag) {
  context->used += size;
  *out =
      mlirModuleCreateParse(context->mlir, mlirStringRefCreate(bytecode, size));
  if (mlirModuleIsNull(*out))
    return fail(context, "the graph cannot be read", diag);
  return NABLA_OK;
}

/* Returns whether the pass manager of the last run serves again. Rules that
 * the process added since then would be missing from it. */
static bool has_passes(const nabla_context *context, const char *pipeline) {
  return context->pipeline && !strcmp(context->pipeline, pipeline) &&
         context->rule_count == nabla_added_rules_count();
}

static nabla_status make_passes(nabla_context *context, const char *pipeline,
                                nabla_diag *diag) {
  nabla_context_forget_passes(context);
  context->rule_count = nabla_added_rules_count();
  context->pipeline = strdup(pipeline);
  if (!context->pipeline)
    return nabla_fail(diag, NABLA_NO_MEMORY, "no memory for a pipeline");
  context->passes = mlirPassManagerCreate(context->mlir);
  /* The program is verified once, at the end: verifying after each pass, as
   * nabla-opt does, takes a third of the time. */
  mlirPassManagerEnableVerifier(context->passes, false);
  nabla_text errors = {0};
  nabla_status status = NABLA_OK;
  if (mlirLogicalResultIsFailure(mlirParsePassPipeline(
          mlirPassManagerGetAsOpPassManager(context->passes),
          mlirStringRefCreateFromCString(pipeline), add_chunk, &errors)))
    status =
        nabla_fail(diag, NABLA_UNSUPPORTED, "the pipeline does not parse: %s",
                   errors.data ? errors.data : "no reason given");
  nabla_text_deinit(&errors);
  if (status) nabla_context_forget_passes(context);
  return status;
}

nabla_status nabla_context_run(nabla_context *context, MlirModule module,
                               const char *pipeline, nabla_diag *diag) {
  if (!has_passes(context, pipeline))
    NABLA_TRY(make_passes(context, pipeline, diag));
  (void)nabla_dispatch_take_counts(); /* of a compilation that failed */
  const MlirLogicalResult result =
      mlirPassManagerRunOnOp(context->passes, mlirModuleGetOperation(module));
  context->counts = nabla_dispatch_take_counts();
  record_counts(context);
  if (mlirLogicalResultIsSuccess(result) &&
      mlirOperationVerify(mlirModuleGetOperation(module)))
    return NABLA_OK;
  /* it may have failed while its passes were made ready */
  nabla_context_forget_passes(context);
  return fail(context, "the program cannot be compiled", diag);
}

typedef struct printing {
  nabla_buffer *out;
  nabla_status status;
  nabla_diag *diag;
} printing;

static void print_chunk(MlirStringRef chunk, void *self) {
  printing *to = self;
  if (!to->status && chunk.length)
    to->status =
        nabla_buffer_append(to->out, chunk.data, chunk.length, to->diag);
}

nabla_status nabla_context_print(MlirOperation op, nabla_buffer *out,
                                 nabla_diag *diag) {
  printing to = {out, NABLA_OK, diag};
  mlirOperationPrint(op, print_chunk, &to);
  return to.status;
}
