/* Byte pair encoding: joins neighbouring symbols, best pair first, leftmost of
 * equals, until none can be joined. A heap over a linked list: the time grows
 * with n log n. */
#ifndef NABLA_QUANT_TOKENIZERS_MERGE_H
#define NABLA_QUANT_TOKENIZERS_MERGE_H

#include <stdint.h>

#include "lib/base/memory.h"

typedef struct nabla_symbol {
  uint32_t at, length;    /* bytes of the text; length 0: joined to the left */
  uint32_t id;            /* NABLA_TOKEN_NONE: no piece                      */
  uint32_t is_frozen;     /* never joined                                    */
  int32_t previous, next; /* symbols, -1: none                            */
} nabla_symbol;

/* Says whether two neighbours may be joined: 1 with *out_key (smaller is
 * better) and the id of the joined symbol, or 0. */
typedef struct nabla_merge_rule {
  int (*join)(const void *self, const uint8_t *text, const nabla_symbol *left,
              const nabla_symbol *right, uint32_t *out_key, uint32_t *out_id);
  const void *self;
} nabla_merge_rule;

typedef struct nabla_merger {
  nabla_buffer symbols; /* nabla_symbol; those left are linked from the first */
  nabla_buffer heap;
} nabla_merger;

void nabla_merger_init(nabla_merger *merger, const nabla_allocator *allocator);
void nabla_merger_deinit(nabla_merger *merger);

/* Removes all symbols. */
void nabla_merger_clear(nabla_merger *merger);

/* Appends a symbol; at most 2^31 - 1. */
NABLA_MUST_USE nabla_status nabla_merger_add(nabla_merger *merger, uint32_t at,
                                             uint32_t length, uint32_t id,
                                             int is_frozen, nabla_diag *diag);

/* Joins what can be joined. */
NABLA_MUST_USE nabla_status nabla_merger_run(nabla_merger *merger,
                                             const uint8_t *text,
                                             nabla_merge_rule rule,
                                             nabla_diag *diag);

/* The first symbol; NULL when there is none. */
static inline const nabla_symbol *nabla_merger_first(
    const nabla_merger *merger) {
  return merger->symbols.size
             ? (const nabla_symbol *)(const void *)merger->symbols.data
             : NULL;
}

static inline const nabla_symbol *nabla_merger_next(
    const nabla_merger *merger, const nabla_symbol *symbol) {
  return symbol->next < 0
             ? NULL
             : (const nabla_symbol *)(const void *)merger->symbols.data +
                   symbol->next;
}

#endif
