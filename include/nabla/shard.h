/* Programs that are divided between the devices of a mesh: docs/SHARDING.md.
 * Part of libnabla. */
#ifndef NABLA_SHARD_H
#define NABLA_SHARD_H

#include <stddef.h>
#include <stdint.h>

#include "nabla/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a value of a program was divided: an operand of nabla.inspect_sharding.
 * Valid during a call. */
typedef struct nabla_sharding_report {
  size_t struct_size;   /* sizeof(nabla_sharding_report), set by the library  */
  const char *name;     /* "seen" of nabla.inspect_sharding @seen             */
  const char *sharding; /* "@m, [{"model"}, {}]"                              */
  const char *type;     /* of the whole: "tensor<8x16xf32>"                   */
  const char *piece;    /* of what each device has: "tensor<2x16xf32>"        */
  uint32_t devices;     /* of the mesh; 0: the program has none, and `sharding`
                           is empty                                           */
} nabla_sharding_report;

/* Adds a function that is called for each nabla.inspect_sharding @NAME of the
 * programs that are compiled from then on, by the thread that compiles.
 * Programs are not taken from the object cache while there is one: they would
 * be compiled without calls.
 * @param name   letters, digits, '_' and '.'; at most 63
 * @param report called with `self`, which may be NULL
 * @return NABLA_OK; NABLA_INVALID_ARGUMENT for a name that is not legal or
 * taken; NABLA_TOO_LARGE for more than 64. Thread-safe. */
NABLA_API NABLA_MUST_USE nabla_status nabla_add_sharding_callback(
    const char *name,
    void (*report)(void *self, const nabla_sharding_report *report), void *self,
    nabla_diag *diag);

#ifdef __cplusplus
}
#endif

#endif
