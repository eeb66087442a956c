/* "Did you mean": the word nearest to what was typed; and an option in the
 * place of an argument. */
#include <ctype.h>
#include <string.h>

#include "tools/nabla-quant/cli.h"

#define NEAR    2  /* edits */
#define LONGEST 64 /* bytes; longer words are not compared */

static size_t smallest(size_t a, size_t b, size_t c) {
  size_t least = a < b ? a : b;
  return least < c ? least : c;
}

/* Levenshtein's distance, where two swapped neighbours count as one edit. */
static size_t distance(const char *a, const char *b) {
  size_t rows[3][LONGEST + 1], length_a = strlen(a), length_b = strlen(b);
  size_t *before = rows[0], *above = rows[1], *row = rows[2];
  if (length_a > LONGEST || length_b > LONGEST) return SIZE_MAX;
  for (size_t j = 0; j <= length_b; j++) above[j] = before[j] = j;
  for (size_t i = 1; i <= length_a; i++) {
    row[0] = i;
    for (size_t j = 1; j <= length_b; j++) {
      row[j] = smallest(above[j] + 1, row[j - 1] + 1,
                        above[j - 1] + (a[i - 1] != b[j - 1]));
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
          before[j - 2] + 1 < row[j])
        row[j] = before[j - 2] + 1;
    }
    size_t *oldest = before;
    before = above, above = row, row = oldest;
  }
  return above[length_b];
}

void cli_suggest(cli_suggestion *suggestion, const char *word) {
  size_t typed = strlen(suggestion->typed), length = strlen(word);
  if (!typed) return;
  size_t edits = distance(suggestion->typed, word);
  size_t shorter = typed < length ? typed : length;
  int prefix = shorter >= 2 && !strncmp(suggestion->typed, word, shorter);
  /* replacing most of a short word is no resemblance */
  if (edits > NEAR || edits >= shorter) edits = prefix ? NEAR + 1 : SIZE_MAX;
  if (edits == SIZE_MAX) return;
  if (suggestion->best && suggestion->distance <= edits) return;
  suggestion->best = word, suggestion->distance = edits;
}

nabla_status cli_check_word(const char *name, const char *argument,
                            nabla_diag *diag) {
  const char second = argument[0] == '-' ? argument[1] : '\0';
  if (second != '-' && !isalpha((unsigned char)second)) return NABLA_OK;
  nabla_status status =
      nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                 "option '--%s' needs an argument, and '%s' looks like another "
                 "option",
                 name, argument);
  nabla_diag_set_next(diag, "if it is the argument, write --%s=%s", name,
                      argument);
  return status;
}
