/* Encodings in encodings: packed scales, and low-rank updates of a packed
 * base. What encoding.c and encoding_nested.c share is here too. */
#ifndef NABLA_DIALECT_ENCODING_ENCODING_NESTED_H
#define NABLA_DIALECT_ENCODING_ENCODING_NESTED_H

#include "dialect/encoding/encoding.h"

/* The most dense tensors that an implicit array is made of in the end: two for
 * each encoding but the last, which may have four. */
#define NABLA_MAX_LEAVES (2 * NABLA_MAX_NESTING + 4)

/* The largest rank of a lora. */
#define NABLA_LORA_RANK_MAX 65536

/* How many levels a packed array has: 1, and one for each encoding that its
 * scales are in. A lora has those of its base: its factors are dense. 1 for
 * what is not packed. */
int nabla_encoding_depth(MlirAttribute encoding);

/* The same encoding with the innermost level of scales decoded, f32; it has
 * more than one level. */
MlirAttribute nabla_encoding_peel(MlirAttribute encoding);

/* The dense tensors that `type` is made of: its components, or theirs, in
 * order; none for what is not stored. */
uint32_t nabla_implicit_leaves(MlirType type, MlirType out[NABLA_MAX_LEAVES]);

/* Parts of nablaHookEncoding: false, and a message, for what is not legal. */
bool nabla_dynamic8_check(MlirContext context, MlirAttribute parameters,
                          MlirAttribute *out, char message[NABLA_MESSAGE_SIZE]);
bool nabla_lora_check(MlirContext context, MlirAttribute parameters,
                      MlirAttribute *out, char message[NABLA_MESSAGE_SIZE]);
/* An encoding as the scales of `name`. */
bool nabla_scales_check(const char *name, MlirAttribute scale,
                        char message[NABLA_MESSAGE_SIZE]);

/* In encoding.c: an integer of at most 64 bits; a block of a legal size; an
 * entry of a dictionary. */
bool nabla_parameter_is_number(MlirAttribute value);
bool nabla_parameter_is_block(int64_t block);
MlirNamedAttribute nabla_parameter(MlirContext context, const char *key,
                                   MlirAttribute value);

#endif
