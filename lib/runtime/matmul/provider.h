/* Inside the libraries: who has kernels for a plan (nabla/matmul.h). The
 * runtime has two: kernels made ahead of time, and C. The compiler registers
 * itself as a third. */
#ifndef NABLA_RUNTIME_MATMUL_PROVIDER_H
#define NABLA_RUNTIME_MATMUL_PROVIDER_H

#include "lib/runtime/matmul/kernel.h"
#include "lib/runtime/weight/weight_view.h"
#include "nabla/matmul.h"

/* A product that kernels are wanted for; all of it has been checked. */
typedef struct nabla_matmul_request {
  nabla_weight_view weight; /* N x K */
  nabla_numerics numerics;
  nabla_weight_layout layout;
  nabla_isa isa;              /* what was asked for: maybe BEST */
  nabla_dtype x_type, y_type; /* never BOOL                     */
  const void *bias;           /* or NULL                        */
  uint64_t m_max;             /* 0: there is no limit           */
} nabla_matmul_request;

/* One kernel of those that serve a plan, each for rows up to m_last. */
typedef struct nabla_provided_kernel {
  nabla_kernel code;
  const char *name; /* lives as long as what `release` frees */
  uint64_t m_last;
} nabla_provided_kernel;

typedef struct nabla_provided {
  uint32_t count; /* 0: the provider has none; the last m_last is UINT64_MAX
                     or not below the request's m_max */
  nabla_provided_kernel kernels[NABLA_MATMUL_MAX_KERNELS];
  nabla_numerics numerics;
  int bias_is_left;             /* y is F32, and the caller adds the bias */
  void *owner;                  /* of the code */
  void (*release)(void *owner); /* or NULL */
} nabla_provided;

/* Who provides. Called from any thread, under a lock of nobody.
 * @return NABLA_OK, also with a count of 0 and the reason in `diag`; any other
 *         status ends the making of the plan */
typedef nabla_status nabla_provide_function(void *self,
                                            const nabla_matmul_request *request,
                                            nabla_provided *out,
                                            nabla_diag *diag);

nabla_provide_function nabla_provide_c;
nabla_provide_function nabla_provide_ahead;

/* Makes `provide` the provider of compiled code, until it is NULL. The old one
 * is in use no more on return. Thread-safe. */
void nabla_provider_register(nabla_provide_function *provide, void *self);

/* Takes it away if it is still that of `self`. */
void nabla_provider_withdraw(const void *self);

/* Asks the provider of compiled code, if there is one. */
nabla_provide_function nabla_provide_compiled;

#endif
