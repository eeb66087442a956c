/* Instruction sets by name: rows of isas.def, and the one that the environment
 * variable NABLA_ISA asks for. */
#ifndef NABLA_BASE_ISA_H
#define NABLA_BASE_ISA_H

#include "nabla/encoding.h"
#include "nabla/status.h"

enum {
#define ISA(id, name, target) NABLA_ISA_ROW_##id,
#include "lib/base/isas.def"
#undef ISA
  NABLA_ISA_COUNT
};

/* The text of --target for `isa`, which is below NABLA_ISA_COUNT. */
const char *nabla_isa_target(nabla_isa isa);

/* Reads a name.
 * @return NABLA_INVALID_ARGUMENT, with the names, when there is no such one */
NABLA_MUST_USE nabla_status nabla_isa_read(const char *name, nabla_isa *out,
                                           nabla_diag *diag);

/* NABLA_ISA_BEST becomes what the environment variable NABLA_ISA names, if it
 * is there and not empty; any other value stays. The variable is read once in
 * the process. Thread-safe.
 * @return NABLA_INVALID_ARGUMENT, with the names, when it names none */
NABLA_MUST_USE nabla_status nabla_isa_or_environment(nabla_isa asked,
                                                     nabla_isa *out,
                                                     nabla_diag *diag);

#endif
