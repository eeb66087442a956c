/* Parameters as trees: those of encodings from outside, and the attributes of
 * custom calls. */
#ifndef NABLA_ATTRIBUTE_TREE_H
#define NABLA_ATTRIBUTE_TREE_H

#include <stddef.h>
#include <stdint.h>

#include "nabla/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum nabla_attribute_tree_kind {
  NABLA_ATTRIBUTE_BOOL,
  NABLA_ATTRIBUTE_INTEGER,
  NABLA_ATTRIBUTE_FLOAT,
  NABLA_ATTRIBUTE_STRING,
  NABLA_ATTRIBUTE_ARRAY,
  NABLA_ATTRIBUTE_DICTIONARY,
} nabla_attribute_tree_kind;

/* The most levels of arrays and dictionaries, and values in all of a tree. */
#define NABLA_ATTRIBUTE_TREE_MAX_DEPTH 16
#define NABLA_ATTRIBUTE_TREE_MAX_COUNT 65536

typedef struct nabla_attribute_tree nabla_attribute_tree;
struct nabla_attribute_tree {
  const char *name; /* in a dictionary, which is sorted by it; else "" */
  nabla_attribute_tree_kind kind;
  int64_t integer;  /* INTEGER; BOOL: 0 or 1 */
  double number;    /* FLOAT                 */
  const char *text; /* STRING, NUL-terminated; may hold others */
  size_t count;     /* bytes of text, or elements */
  const nabla_attribute_tree *elements; /* ARRAY, DICTIONARY     */
};

/* The entry of a dictionary; NULL when there is none, or it is no dictionary.
 */
NABLA_API const nabla_attribute_tree *nabla_attribute_tree_find(
    const nabla_attribute_tree *from, const char *name);
/* The integer of that name, or `otherwise` where there is none. */
NABLA_API int64_t nabla_attribute_tree_integer(const nabla_attribute_tree *from,
                                               const char *name,
                                               int64_t otherwise);
/* "a float", "an array": for messages. */
NABLA_API const char *nabla_attribute_tree_kind_name(
    nabla_attribute_tree_kind kind);

#ifdef __cplusplus
}
#endif

#endif
