/* A bounded reader of protocol buffers: fields one after the other, nothing is
 * copied (protobuf.dev, "Encoding"). */
#ifndef NABLA_QUANT_TOKENIZERS_PROTO_H
#define NABLA_QUANT_TOKENIZERS_PROTO_H

#include "lib/base/bytes.h"
#include "nabla/status.h"

typedef enum nabla_proto_wire {
  NABLA_PROTO_VARINT = 0,
  NABLA_PROTO_FIXED64 = 1,
  NABLA_PROTO_BYTES = 2,
  NABLA_PROTO_FIXED32 = 5,
} nabla_proto_wire;

typedef struct nabla_proto_field {
  uint32_t number;
  nabla_proto_wire wire;
  uint64_t value;        /* of numbers        */
  nabla_cursor contents; /* of bytes          */
  size_t offset;         /* of the field      */
} nabla_proto_field;

/* A message: its contents, and where they begin in the file. */
typedef struct nabla_proto {
  nabla_cursor cursor;
  size_t origin;
} nabla_proto;

/* The message that a field of bytes holds. */
nabla_proto nabla_proto_inner(const nabla_proto *outer,
                              const nabla_proto_field *field);

/* Reads the next field; *out_is_end is set at the end of the message.
 * @return NABLA_OK, or NABLA_CORRUPT with the offset in the file */
NABLA_MUST_USE nabla_status nabla_proto_next(nabla_proto *message,
                                             nabla_proto_field *out,
                                             int *out_is_end, nabla_diag *diag);

/* Refuses a field that has another wire type than `wire`. */
NABLA_MUST_USE nabla_status nabla_proto_expect(const nabla_proto_field *field,
                                               nabla_proto_wire wire,
                                               const char *name,
                                               nabla_diag *diag);

#endif
