/* See isa.h. */
#include "lib/base/isa.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define ISA(id, name, target)                               \
  _Static_assert(NABLA_ISA_ROW_##id == (int)NABLA_ISA_##id, \
                 "rows are in the order of nabla_isa");
#include "lib/base/isas.def"
#undef ISA

static const struct {
  const char *name, *target;
} rows[NABLA_ISA_COUNT] = {
#define ISA(id, name, target) {name, target},
#include "lib/base/isas.def"
#undef ISA
};

const char *nabla_isa_name(nabla_isa isa) {
  return (unsigned)isa < NABLA_ISA_COUNT ? rows[isa].name : "unknown";
}

const char *nabla_isa_target(nabla_isa isa) { return rows[isa].target; }

nabla_status nabla_isa_read(const char *name, nabla_isa *out,
                            nabla_diag *diag) {
  for (int i = 0; i < NABLA_ISA_COUNT; i++) {
    if (strcmp(rows[i].name, name) != 0) continue;
    *out = (nabla_isa)i;
    return NABLA_OK;
  }
  const nabla_status status = nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                                         "'%.60s' is no instruction set", name);
  static const char names[] =
#define ISA(id, name, target) ", " name
#include "lib/base/isas.def"
#undef ISA
      ;
  nabla_diag_set_next(diag, "legal are %s", names + strlen(", "));
  return status;
}

/* A copy: the environment may change while others read it. */
static char from_environment[64];

static void read_environment(void) {
  const char *value = getenv("NABLA_ISA");
  if (value) strncpy(from_environment, value, sizeof from_environment - 1);
}

nabla_status nabla_isa_or_environment(nabla_isa asked, nabla_isa *out,
                                      nabla_diag *diag) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  nabla_isa isa = asked;
  pthread_once(&once, read_environment);
  if (asked == NABLA_ISA_BEST && *from_environment) {
    nabla_diag said = NABLA_DIAG_INIT;
    const nabla_status status = nabla_isa_read(from_environment, &isa, &said);
    if (status) {
      (void)!nabla_fail(diag, status, "the environment variable NABLA_ISA: %s",
                        said.what);
      nabla_diag_set_next(diag, "%s", said.next);
      return status;
    }
  }
  *out = isa;
  return NABLA_OK;
}
