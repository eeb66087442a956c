/* Arrays in and out of other libraries without a copy: the structures of DLPack
 * 1.1 and before, and functions. Part of libnabla.
 *
 * The structures are DLPack's, byte by byte, under names of their own, so that
 * a program may include dlpack.h too and cast pointers. Source:
 * include/dlpack/dlpack.h of https://github.com/dmlc/dlpack, version 1.1,
 * Apache 2.0. */
#ifndef NABLA_DLPACK_H
#define NABLA_DLPACK_H

#include <stddef.h>
#include <stdint.h>

#include "nabla/array.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NABLA_DLPACK_MAJOR 1u
#define NABLA_DLPACK_MINOR 1u

/* DLDeviceType: that of the CPU, the only one here. */
#define NABLA_DLPACK_CPU 1

/* DLDataTypeCode. */
#define NABLA_DLPACK_INT    0
#define NABLA_DLPACK_UINT   1
#define NABLA_DLPACK_FLOAT  2
#define NABLA_DLPACK_BFLOAT 4
#define NABLA_DLPACK_BOOL   6

/* Bits of `flags`. */
#define NABLA_DLPACK_READ_ONLY UINT64_C(1)
#define NABLA_DLPACK_IS_COPIED UINT64_C(2)

typedef struct nabla_dlpack_version { /* DLPackVersion */
  uint32_t major, minor;
} nabla_dlpack_version;

typedef struct nabla_dlpack_device { /* DLDevice */
  int32_t device_type, device_id;
} nabla_dlpack_device;

typedef struct nabla_dlpack_dtype { /* DLDataType */
  uint8_t code, bits;
  uint16_t lanes;
} nabla_dlpack_dtype;

typedef struct nabla_dlpack_tensor { /* DLTensor */
  void *data;
  nabla_dlpack_device device;
  int32_t ndim;
  nabla_dlpack_dtype dtype;
  int64_t *shape;
  int64_t *strides; /* in elements; NULL: row-major without gaps */
  uint64_t byte_offset;
} nabla_dlpack_tensor;

typedef struct nabla_dlpack_managed { /* DLManagedTensorVersioned */
  nabla_dlpack_version version;
  void *manager_ctx;
  void (*deleter)(struct nabla_dlpack_managed *self);
  uint64_t flags;
  nabla_dlpack_tensor dl_tensor;
} nabla_dlpack_managed;

/* A leaf whose data is that of a tensor, which is never written. On success the
 * tensor belongs to the array: its deleter, if it has one, is called when the
 * array is freed, on any thread. NULL after a failure of the scope, and then
 * the tensor is still the caller's:
 *         NABLA_UNSUPPORTED       another major version, a device that is not
 *                                 the CPU, a dtype that arrays do not have,
 *                                 strides that are not row-major
 *         NABLA_INVALID_ARGUMENT  data that is not aligned to its dtype, and as
 *                                 nabla_array_of */
NABLA_API nabla_array *nabla_array_from_dlpack(nabla_scope *scope,
                                               nabla_dlpack_managed *tensor);

/* Realizes an array, and gives its data as a tensor, read-only, which holds a
 * reference to the array until its deleter is called, on any thread, at the
 * latest before the engine's allocator ends.
 * @return as nabla_array_read; NABLA_NO_MEMORY */
NABLA_API NABLA_MUST_USE nabla_status nabla_array_to_dlpack(
    nabla_array *array, nabla_dlpack_managed **out, nabla_diag *diag);

/* The structure of DLPack before 1.0, DLManagedTensor, which many libraries
 * still give and take: it says neither a version nor whether it may be written.
 */
typedef struct nabla_dlpack_unversioned { /* DLManagedTensor */
  nabla_dlpack_tensor dl_tensor;
  void *manager_ctx;
  void (*deleter)(struct nabla_dlpack_unversioned *self);
} nabla_dlpack_unversioned;

/* Wraps a tensor in the structure of the other version, with the same data. On
 * success the tensor belongs to `*out`, whose deleter calls its deleter, on the
 * same thread; after a failure it is still the caller's. `from_dlpack` of the
 * first gives an array; the second is for what nabla_array_to_dlpack gives, and
 * must not be written, which the structure cannot say.
 * @return NABLA_OK, NABLA_NO_MEMORY, or NABLA_INVALID_ARGUMENT for NULL
 * Thread-safe. */
NABLA_API NABLA_MUST_USE nabla_status
nabla_dlpack_add_version(nabla_dlpack_unversioned *tensor,
                         nabla_dlpack_managed **out, nabla_diag *diag);
NABLA_API NABLA_MUST_USE nabla_status
nabla_dlpack_drop_version(nabla_dlpack_managed *tensor,
                          nabla_dlpack_unversioned **out, nabla_diag *diag);

#ifdef __cplusplus
}
#endif

/* nabla/here.h */
#ifdef NABLA_HAS_HERE
#define nabla_array_from_dlpack(...) \
  NABLA_HERE(nabla_array_from_dlpack(__VA_ARGS__))
#define nabla_array_to_dlpack(...) \
  NABLA_HERE_STATUS(nabla_array_to_dlpack(__VA_ARGS__))
#endif

#endif
