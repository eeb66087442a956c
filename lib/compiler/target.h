/* The machine that code is made for, of the text of --target: a CPU and its
 * features. The interface to kinds of machines is transforms/ir/target.h.
 */
#ifndef NABLA_COMPILER_TARGET_H
#define NABLA_COMPILER_TARGET_H

#include <llvm-c/TargetMachine.h>

#include "lib/kernels/builder/features.h"
#include "nabla/numerics.h"
#include "nabla/status.h"

typedef struct nabla_machine {
  char *text;             /* what was asked for */
  char *spelled;          /* the same with LLVM's names alone */
  char *cpu, *triple;     /* as LLVM spells them */
  char *features;         /* of the machine: "+avx2,-avx512f" */
  nabla_x86_features set; /* all that are there, implied ones too */
  nabla_features kernels; /* what kernel generators may use: but see
                             nabla_machine_kernels */
  const char *missing;    /* a feature that this machine lacks, or NULL */
  int is_foreign;         /* it is another kind of machine than this one */
  int runs_elsewhere;     /* whoever loads the code looks whether it can run,
                             also for what one has to ask the system */
  LLVMTargetMachineRef machine;
} nabla_machine;

/* Reads "CPU[,+FEATURE|-FEATURE|,FEATURE]...", or a kind of machine, "aarch64".
 * "no-amx" is a CPU: this one without the features of AMX. NULL is "native":
 * this CPU, or what the environment variable NABLA_ISA names (lib/base/isa.h).
 * @return NABLA_INVALID_ARGUMENT (unknown CPU or feature, or one without the
 *         baseline of 64-bit code), NABLA_UNSUPPORTED (LLVM lacks the machine),
 *         NABLA_NO_MEMORY */
NABLA_MUST_USE nabla_status nabla_machine_create(const char *text,
                                                 nabla_machine **out,
                                                 nabla_diag *diag);

/* The same for a machine whose CPU has another name or other features. */
typedef struct nabla_host_cpu {
  const char *name, *features; /* as LLVM says them: "+avx2,-avx512f" */
} nabla_host_cpu;
NABLA_MUST_USE nabla_status nabla_machine_create_on(const nabla_host_cpu *here,
                                                    const char *text,
                                                    nabla_machine **out,
                                                    nabla_diag *diag);
void nabla_machine_destroy(nabla_machine *target); /* NULL is allowed */

/* What kernels may use: AMX only `with_tiles`, and where this process may have
 * it. That asks the system, for all of the process and for ever, which is why
 * nothing asks that does not need it: plans of one row do not. */
nabla_features nabla_machine_kernels(const nabla_machine *target,
                                     int with_tiles);

/* Whether it is "x86_64" or "aarch64". */
int nabla_machine_is(const nabla_machine *target, const char *machine);

#endif
