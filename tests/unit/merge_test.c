/* The merger of byte pair encoding against its definition: of all neighbours
 * that may be joined the best pair is, the leftmost of equals, until there is
 * none. */
#include "quant/tokenizers/merge.h"

#include <criterion/criterion.h>
#include <stdbool.h>
#include <string.h>

enum { LETTERS = 3, LONGEST = 5, PIECES = 40, TEXT = 24 };

/* Pieces of more than one letter, with keys of which many are equal. */
typedef struct rules {
  char pieces[PIECES][LONGEST + 1];
  uint32_t keys[PIECES];
} rules;

static uint64_t state;

static uint32_t number(uint32_t below) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state >> 33) % below;
}

static void fill(rules *out) {
  memset(out, 0, sizeof *out);
  for (int i = 0; i < PIECES; i++) {
    const uint32_t length = 2 + number(LONGEST - 1);
    for (uint32_t k = 0; k < length; k++)
      out->pieces[i][k] = (char)('a' + number(LETTERS));
    out->keys[i] = number(8);
  }
}

/* The piece of these bytes, or -1. */
static int piece_of(const rules *all, const uint8_t *text, uint32_t length) {
  for (int i = 0; i < PIECES; i++)
    if (strlen(all->pieces[i]) == length &&
        !memcmp(all->pieces[i], text, length))
      return i;
  return -1;
}

static int join(const void *self, const uint8_t *text, const nabla_symbol *left,
                const nabla_symbol *right, uint32_t *out_key,
                uint32_t *out_id) {
  const rules *all = self;
  const int piece =
      piece_of(all, text + left->at, left->length + right->length);
  if (piece < 0) return 0;
  *out_key = all->keys[piece];
  *out_id = (uint32_t)piece;
  return 1;
}

/* Joins one pair of `symbols` as the definition says; false: there is none. */
static bool join_best(const rules *all, const uint8_t *text,
                      nabla_symbol *symbols, size_t *count) {
  size_t best = SIZE_MAX;
  uint32_t best_key = 0, best_id = 0, key, id;
  for (size_t i = 0; i + 1 < *count; i++)
    if (!symbols[i].is_frozen && !symbols[i + 1].is_frozen &&
        join(all, text, &symbols[i], &symbols[i + 1], &key, &id) &&
        (best == SIZE_MAX || key < best_key))
      best = i, best_key = key, best_id = id;
  if (best == SIZE_MAX) return false;
  symbols[best].length += symbols[best + 1].length;
  symbols[best].id = best_id;
  --*count;
  memmove(&symbols[best + 1], &symbols[best + 2],
          (*count - best - 1) * sizeof *symbols);
  return true;
}

static void compare(nabla_merger *merger, const rules *all, const uint8_t *text,
                    uint32_t size) {
  nabla_symbol symbols[TEXT];
  size_t count = size, at = 0;
  nabla_merger_clear(merger);
  for (uint32_t i = 0; i < size; i++) {
    symbols[i] = (nabla_symbol){
        .at = i, .length = 1, .id = 1000, .is_frozen = number(12) == 0};
    cr_assert_eq(
        nabla_merger_add(merger, i, 1, 1000, (int)symbols[i].is_frozen, NULL),
        NABLA_OK);
  }
  while (join_best(all, text, symbols, &count)) continue;
  cr_assert_eq(
      nabla_merger_run(merger, text, (nabla_merge_rule){join, all}, NULL),
      NABLA_OK);
  for (const nabla_symbol *s = nabla_merger_first(merger); s;
       s = nabla_merger_next(merger, s), at++) {
    cr_assert_lt(at, count, "'%.*s'", (int)size, (const char *)text);
    cr_assert(s->at == symbols[at].at && s->length == symbols[at].length &&
                  s->id == symbols[at].id,
              "'%.*s': symbol %zu at %u has %u bytes, not %u at %u", (int)size,
              (const char *)text, at, s->at, s->length, symbols[at].length,
              symbols[at].at);
  }
  cr_assert_eq(at, count, "'%.*s'", (int)size, (const char *)text);
}

Test(merge, joins_as_its_definition) {
  nabla_merger merger;
  nabla_merger_init(&merger, NULL);
  for (state = 0; state < 200; state++) {
    const uint64_t round = state;
    rules all;
    fill(&all);
    for (int i = 0; i < 20; i++) {
      uint8_t text[TEXT];
      const uint32_t size = number(TEXT + 1);
      for (uint32_t k = 0; k < size; k++)
        text[k] = (uint8_t)('a' + number(LETTERS));
      compare(&merger, &all, text, size);
    }
    state = round;
  }
  nabla_merger_deinit(&merger);
}
