/* The provider that the compiler registers. */
#include <pthread.h>

#include "lib/runtime/matmul/provider.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static nabla_provide_function *compiled;
static void *compiled_self;

void nabla_provider_register(nabla_provide_function *provide, void *self) {
  pthread_rwlock_wrlock(&lock);
  compiled = provide;
  compiled_self = self;
  pthread_rwlock_unlock(&lock);
}

void nabla_provider_withdraw(const void *self) {
  pthread_rwlock_wrlock(&lock);
  if (compiled_self == self) {
    compiled = NULL;
    compiled_self = NULL;
  }
  pthread_rwlock_unlock(&lock);
}

nabla_status nabla_provide_compiled(void *self,
                                    const nabla_matmul_request *request,
                                    nabla_provided *out, nabla_diag *diag) {
  (void)self;
  nabla_status status = NABLA_OK;
  *out = (nabla_provided){0};
  pthread_rwlock_rdlock(&lock);
  if (compiled)
    status = compiled(compiled_self, request, out, diag);
  else
    (void)!nabla_fail(diag, NABLA_UNSUPPORTED,
                      "no compiler provides for plans in this process");
  pthread_rwlock_unlock(&lock);
  return status;
}
