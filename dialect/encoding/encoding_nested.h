/* Nested encodings: packed scales, and low-rank updates of a packed base.
 * Functions that encoding.c and encoding_nested.c share are declared here too.
 */
#ifndef NABLA_DIALECT_ENCODING_ENCODING_NESTED_H
#define NABLA_DIALECT_ENCODING_ENCODING_NESTED_H

#include "dialect/encoding/encoding.h"

/* Largest number of dense tensors of which an implicit array consists: two for
 * each encoding but the last, which may have four. */
#define NABLA_MAX_LEAVES (2 * NABLA_MAX_NESTING + 4)

/* The largest rank of a lora. */
#define NABLA_LORA_RANK_MAX 65536

/* Returns the number of levels of a packed array: 1, plus 1 for each encoding
 * of its scales. A lora has the levels of its base, since its factors are
 * dense. 1 for an array that is not packed. */
int nabla_encoding_depth(MlirAttribute encoding);

/* Returns the encoding with its innermost level of scales decoded to f32; it
 * must have more than one level. */
MlirAttribute nabla_encoding_peel(MlirAttribute encoding);

/* The encoding of pieces of an array: packed scales are decoded to f32, since
 * groups of them are no groups of a piece; loras and others stay. */
MlirAttribute nabla_encoding_of_pieces(MlirAttribute encoding);

/* Lists the dense tensors of which `type` consists: its components, or the
 * components of these, in order; none for a type without storage. */
uint32_t nabla_implicit_leaves(MlirType type, MlirType out[NABLA_MAX_LEAVES]);

/* Parts of nablaHookEncoding. They return false and write a message for an
 * illegal encoding. */
bool nabla_dynamic8_check(MlirContext context, MlirAttribute parameters,
                          MlirAttribute *out, char message[NABLA_MESSAGE_SIZE]);
bool nabla_lora_check(MlirContext context, MlirAttribute parameters,
                      MlirAttribute *out, char message[NABLA_MESSAGE_SIZE]);
/* Checks an encoding for the scales of `name`. */
bool nabla_scales_check(const char *name, MlirAttribute scale,
                        char message[NABLA_MESSAGE_SIZE]);

/* In encoding.c: whether an attribute is an integer of at most 64 bits; whether
 * a block has a legal size; an entry of a dictionary. */
bool nabla_parameter_is_number(MlirAttribute value);
bool nabla_parameter_is_block(int64_t block);
MlirNamedAttribute nabla_parameter(MlirContext context, const char *key,
                                   MlirAttribute value);

#endif
