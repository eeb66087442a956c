/* #nabla.custom<"name", {parameters}>: encodings from outside. Their
 * components and decode are given by a C program (nabla/custom_encoding.h),
 * or by the parameters themselves: components = [["codes", i8,
 * affine_map<(n) -> (n ceildiv 2)>], ...] decode = @function of the module:
 * (components..., index) -> f32 cut = 32 optional Functions are defined in
 * custom_registry.c too. */
#ifndef NABLA_DIALECT_ENCODING_CUSTOM_ENCODING_H
#define NABLA_DIALECT_ENCODING_CUSTOM_ENCODING_H

#include "dialect/encoding/encoding.h"
#include "nabla/custom_encoding.h"

/* Whether the parameters of an attribute are legal: {value = "name", values =
 * {...}}. Says what is wrong. */
bool nabla_custom_check(MlirAttribute parameters,
                        char message[NABLA_MESSAGE_SIZE]);

/* Whether there are components for a storage. */
bool nabla_custom_check_storage(MlirAttribute encoding, intptr_t rank,
                                const int64_t *shape,
                                char message[NABLA_MESSAGE_SIZE]);

/* Those components. */
uint32_t nabla_custom_components(MlirAttribute encoding, intptr_t rank,
                                 const int64_t *shape,
                                 nabla_implicit_component out[]);

/* Elements at whose multiples a storage may be cut; 0: nowhere. */
uint64_t nabla_custom_cut(MlirAttribute encoding);

/* What happens where no rule takes an operation: of an encoding from C, or of
 * the parameter `fallback`, "report", "silent" or "never". */
nabla_encoding_fallback nabla_custom_fallback(MlirAttribute encoding);

/* The function of the module that decodes; null for one from C. */
MlirAttribute nabla_custom_function(MlirAttribute encoding);

/* The text of the function of one from C, called `name`. */
nabla_status nabla_custom_decode(MlirType type, const char *name,
                                 const nabla_sink *to, nabla_diag *diag);

/* What of the encodings from C belongs into a key of the object cache, a line
 * each. False when one has no version: nothing is to be cached. */
bool nabla_custom_describe(void (*line)(void *self, const char *name,
                                        const char *version),
                           void *self);

#endif
