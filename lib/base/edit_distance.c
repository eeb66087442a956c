/* See the header. */
#include "lib/base/edit_distance.h"

#include <string.h>

#define LONGEST 128 /* bytes that differ; longer: not compared */
#define WORK    ((uint64_t)1 << 26) /* about a tenth of a second            */
#define INSIDE  1000 /* the distance of a name in another one   */

nabla_nearest nabla_nearest_begin(const char *wanted, size_t length) {
  return (nabla_nearest){
      .wanted = wanted, .length = length, .distance = SIZE_MAX, .work = WORK};
}

static size_t smallest(size_t a, size_t b, size_t c) {
  const size_t least = a < b ? a : b;
  return least < c ? least : c;
}

/* Optimal string alignment: Levenshtein's distance with swapped neighbours as
 * one edit. Both are at most LONGEST bytes. */
static size_t edits(const char *a, size_t length_a, const char *b,
                    size_t length_b) {
  size_t rows[3][LONGEST + 1];
  size_t *before = rows[0], *above = rows[1], *row = rows[2];
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

/* The distance, or SIZE_MAX when the names do not resemble each other. */
static size_t distance(nabla_nearest *n, const char *name, size_t length) {
  const char *a = n->wanted, *b = name;
  size_t length_a = n->length, length_b = length;
  const size_t shorter = length_a < length_b ? length_a : length_b;
  if (shorter == 0 || n->work < shorter) return SIZE_MAX;
  n->work -= shorter;
  while (length_a && length_b && *a == *b) a++, b++, length_a--, length_b--;
  while (length_a && length_b && a[length_a - 1] == b[length_b - 1])
    length_a--, length_b--;
  const size_t limit = 1 + shorter / 6;
  const size_t gap =
      length_a > length_b ? length_a - length_b : length_b - length_a;
  const uint64_t cells = (uint64_t)length_a * length_b;
  if (gap <= limit && length_a <= LONGEST && length_b <= LONGEST &&
      n->work >= cells) {
    n->work -= cells;
    const size_t found = edits(a, length_a, b, length_b);
    if (found <= limit && found < shorter) return found;
  }
  const uint64_t search = (uint64_t)n->length + length;
  if (shorter < 3 || n->work < search) return SIZE_MAX;
  n->work -= search;
  const int inside = n->length < length
                         ? memmem(name, length, n->wanted, n->length) != NULL
                         : memmem(n->wanted, n->length, name, length) != NULL;
  return inside ? INSIDE + gap : SIZE_MAX;
}

void nabla_nearest_offer(nabla_nearest *nearest, const char *name,
                         size_t length) {
  const size_t found = distance(nearest, name, length);
  if (found >= nearest->distance) return;
  nearest->best = name;
  nearest->best_length = length;
  nearest->distance = found;
}

void nabla_nearest_say(const nabla_nearest *nearest, nabla_diag *diag,
                       const char *otherwise) {
  const size_t room = 128; /* of `next`; the rest is shown as "..." */
  if (!nearest->best)
    nabla_diag_set_next(diag, "%s", otherwise);
  else if (nearest->best_length <= room)
    nabla_diag_set_next(diag, "did you mean '%.*s'?", (int)nearest->best_length,
                        nearest->best);
  else
    nabla_diag_set_next(diag, "did you mean '%.*s...'?", (int)room,
                        nearest->best);
}
