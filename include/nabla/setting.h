/* Parameters as trees: those of encodings from outside, and the attributes of
 * custom calls. */
#ifndef NABLA_SETTING_H
#define NABLA_SETTING_H

#include <stddef.h>
#include <stdint.h>

#include "nabla/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum nabla_setting_kind {
  NABLA_SETTING_BOOL,
  NABLA_SETTING_INTEGER,
  NABLA_SETTING_FLOAT,
  NABLA_SETTING_STRING,
  NABLA_SETTING_ARRAY,
  NABLA_SETTING_DICTIONARY,
} nabla_setting_kind;

/* The most levels of arrays and dictionaries, and values in all of a tree. */
#define NABLA_SETTING_MAX_DEPTH 16
#define NABLA_SETTING_MAX_COUNT 65536

typedef struct nabla_setting nabla_setting;
struct nabla_setting {
  const char *name; /* in a dictionary, which is sorted by it; else "" */
  nabla_setting_kind kind;
  int64_t integer;               /* INTEGER; BOOL: 0 or 1 */
  double number;                 /* FLOAT                 */
  const char *text;              /* STRING, NUL-terminated; may hold others */
  size_t count;                  /* bytes of text, or elements */
  const nabla_setting *elements; /* ARRAY, DICTIONARY     */
};

/* The entry of a dictionary; NULL when there is none, or it is no dictionary.
 */
NABLA_API const nabla_setting *nabla_setting_find(const nabla_setting *from,
                                                  const char *name);
/* The integer of that name, or `otherwise` where there is none. */
NABLA_API int64_t nabla_setting_integer(const nabla_setting *from,
                                        const char *name, int64_t otherwise);
/* "a float", "an array": for messages. */
NABLA_API const char *nabla_setting_kind_name(nabla_setting_kind kind);

#ifdef __cplusplus
}
#endif

#endif
