/* The encodings that C programs have added. */
#ifndef NABLA_DIALECT_ENCODING_CUSTOM_REGISTRY_H
#define NABLA_DIALECT_ENCODING_CUSTOM_REGISTRY_H

#include <stdbool.h>

#include "nabla/custom_encoding.h"

/* Letters, digits, '_' and '.', from 1 to 63 of them. */
bool nabla_custom_name_good(const char *name, size_t length);

/* NULL when there is none of that name. It stays. */
const nabla_encoding_description *nabla_custom_find(const char *name,
                                                    size_t length);

#endif
