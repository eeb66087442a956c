/* The table of passes, made from passes.def, and everything's registration. */
#include "transforms/passes.h"

#include <mlir-c/RegisterEverything.h>
#include <pthread.h>
#include <string.h>

#include "dialect/dialect.h"
#include "transforms/pipelines.h"

#define MODULE "builtin.module"
#define ANY    NULL

#define PASS(id, flag, anchor, summary)
#define OPTION(id, name, initial, description) {name, description, initial},
static const nablaPassOption options[] = {
#include "transforms/passes.def"
};
#undef OPTION
#define OPTION(id, name, initial, description) #id,
static const char *const option_owners[] = {
#include "transforms/passes.def"
};
#undef PASS
#undef OPTION

#define OPTION(id, name, initial, description)
#define PASS(id, flag, anchor, summary) #id,
static const char *const ids[] = {
#include "transforms/passes.def"
};
#undef PASS
#define PASS(id, flag, anchor, summary) \
  {flag, summary, anchor, 0, NULL, load_dialects, keep, nabla_run_##id},

/* Dialects that passes create ops of. */
static const char *const dialects[] = {
    "nabla",  "func",   "arith",  "tensor", "linalg",        "scf",
    "memref", "vector", "affine", "llvm",   "bufferization", NULL,
};

/* Passes cannot load dialects once threads run. */
static void *load_dialects(MlirContext context, const nablaPassValue *values) {
  (void)values;
  for (const char *const *name = dialects; *name; name++)
    mlirContextGetOrLoadDialect(context, mlirStringRefCreateFromCString(*name));
  static char nothing;
  return &nothing;
}
static void keep(void *prepared) { (void)prepared; }

/* Complete but for the options, which pass_options() fills in. */
static nablaPass passes[] = {
#include "transforms/passes.def"
};
#undef PASS
#undef OPTION

#define COUNT(array) ((intptr_t)(sizeof(array) / sizeof *(array)))

/* Options stand together, behind their pass. */
static void find_options(intptr_t pass) {
  for (intptr_t i = 0; i < COUNT(options); i++) {
    if (strcmp(option_owners[i], ids[pass])) continue;
    if (!passes[pass].options) passes[pass].options = &options[i];
    passes[pass].optionCount++;
  }
}

static void *prepare_dispatch(MlirContext context,
                              const nablaPassValue *values) {
  (void)load_dialects(context, values);
  return nabla_prepare_dispatch(context, values);
}

/* What --help says: a line for each stage. */
static void describe(const nabla_pipeline *pipeline, nabla_text *out) {
  nabla_text_add(out, "%s. Stages:", pipeline->summary);
  for (size_t i = 0; i < pipeline->stage_count; i++) {
    const nabla_stage *stage = &pipeline->stages[i];
    const bool planned = stage->when == NABLA_STAGE_PLANNED;
    const char *target = nabla_stage_target(stage);
    nabla_text_add(out, "\n          %-13s  %s", stage->id,
                   planned ? "no pass: " : "");
    if (planned || target)
      nabla_text_add(out, "%s", stage->passes);
    else
      (void)!nabla_stage_write(stage, nabla_pipeline_defaults, out, NULL);
    if (target) nabla_text_add(out, " (target %s)", target);
  }
}

/* A row that cannot be written has no pipeline: passes.pipelines fails. */
static void register_pipeline(nabla_pipeline_id id) {
  static nabla_text texts[NABLA_PIPELINE_COUNT], said[NABLA_PIPELINE_COUNT];
  const nabla_pipeline pipeline = nabla_pipeline_get(id);
  describe(&pipeline, &said[id]);
  if (!nabla_pipeline_write(id, nabla_pipeline_defaults, &texts[id], NULL) &&
      !said[id].failed)
    nablaPipelineRegister(pipeline.flag, said[id].data, texts[id].data);
}

static void register_once(void) {
  mlirRegisterAllPasses();
  for (intptr_t i = 0; i < COUNT(passes); i++) {
    find_options(i);
    if (passes[i].run == nabla_run_dispatch) {
      passes[i].prepare = prepare_dispatch;
      passes[i].release = nabla_release_dispatch;
    }
    nablaPassRegister(&passes[i]);
  }
  for (int i = 0; i < NABLA_PIPELINE_COUNT; i++)
    register_pipeline((nabla_pipeline_id)i);
}

void nablaRegisterEverything(MlirDialectRegistry registry) {
  mlirRegisterAllDialects(registry);
  mlirDialectHandleInsertDialect(mlirGetDialectHandle__nabla__(), registry);
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, register_once);
}
