/* Texts of a profile: names of operations, and static texts of the program. */
#ifndef NABLA_TRANSFORMS_PROFILE_PROFILE_TEXTS_H
#define NABLA_TRANSFORMS_PROFILE_PROFILE_TEXTS_H

#include "transforms/ir/ir.h"

#define NABLA_PROFILE_NAMES 160 /* bytes of names of operations */
#define NABLA_PROFILE_TEXT  320 /* bytes of a text              */

/* The texts, each once. A zero-initialised one is empty. */
typedef struct nabla_profile_texts {
  nabla_text globals;
  char (*texts)[NABLA_PROFILE_TEXT];
  size_t count, capacity;
  bool failed;
} nabla_profile_texts;

/* Appends the names of operations in a location, of NABLA_PROFILE_NAMES bytes:
 * those of nabla-profile-names, which may be fused. The outermost name of a
 * chain is an operation that another one was decomposed into; the innermost is
 * the program's. */
void nabla_profile_add_names(char *names, MlirLocation location);

/* The number of a text, whose characters that IR would escape become '_'. */
size_t nabla_profile_text(nabla_profile_texts *p, const char *what);

/* The address of text `number`, before an operation. */
MlirValue nabla_profile_address(MlirOperation before, size_t number);

/* Adds the texts to `module`, and the services that take them. False if out of
 * memory. */
bool nabla_profile_add_globals(MlirOperation module, nabla_profile_texts *p);

void nabla_profile_texts_deinit(nabla_profile_texts *p);

/* profile_memory.c: adds calls of the service `hold` for every array that a
 * function of `module` allocates, or that has a part of planned memory. */
void nabla_profile_memory(MlirOperation module, nabla_profile_texts *p);

#endif
