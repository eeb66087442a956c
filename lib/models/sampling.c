/* The choice of the next token from a row of logits: nabla/decoder.h. */
#include <inttypes.h>
#include <math.h>

#include "lib/base/require.h"
#include "nabla/decoder.h"

/* The likeliest token, the first of several; logits that are -inf are of tokens
 * that cannot come. */
static nabla_status find_greatest(const float *logits, size_t count,
                                  size_t *out, nabla_diag *diag) {
  size_t best = 0;
  for (size_t i = 0; i < count; i++) {
    if (isnan(logits[i]) || logits[i] == INFINITY)
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "the logit of token %zu is %s", i,
                        isnan(logits[i]) ? "not a number" : "infinite");
    if (logits[i] > logits[best]) best = i;
  }
  if (count && logits[best] > -INFINITY) {
    *out = best;
    return NABLA_OK;
  }
  return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                    "no token of %zu has a logit above -inf", count);
}

/* SplitMix64 (Steele, Lea, Flood, 2014), as a number in [0, 1). */
static double draw(uint64_t *state) {
  uint64_t x = *state += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return (double)((x ^ x >> 31) >> 11) * 0x1p-53;
}

/* ---- tokens by their logits ---------------------------------------------- */

/* A heap of tokens, the likeliest on top; of equal ones the first. */
typedef struct heap {
  const float *logits;
  uint32_t *tokens;
  size_t count;
} heap;

static int is_above(const heap *h, uint32_t a, uint32_t b) {
  const float x = h->logits[a], y = h->logits[b];
  return x > y || (x == y && a < b);
}

static void sift(heap *h, size_t at) {
  const uint32_t token = h->tokens[at];
  for (size_t child; (child = 2 * at + 1) < h->count; at = child) {
    if (child + 1 < h->count &&
        is_above(h, h->tokens[child + 1], h->tokens[child]))
      child++;
    if (!is_above(h, h->tokens[child], token)) break;
    h->tokens[at] = h->tokens[child];
  }
  h->tokens[at] = token;
}

/* Moves the likeliest token behind the others. */
static uint32_t take(heap *h) {
  const uint32_t first = h->tokens[0];
  h->tokens[0] = h->tokens[--h->count];
  h->tokens[h->count] = first;
  if (h->count) sift(h, 0);
  return first;
}

/* Draws one of the likeliest tokens that have `top_p` of all probability. */
static uint32_t draw_token(const float *logits, size_t count, size_t best,
                           const nabla_sampling *how, uint64_t *random,
                           uint32_t *order) {
  const double top_p = how->top_p > 0 ? how->top_p : 1;
  double sum = 0, kept = 0;
  heap h = {logits, order, count};
#define WEIGHT(i) exp((double)(logits[i] - logits[best]) / how->temperature)
  for (size_t i = 0; i < count; i++) {
    order[i] = (uint32_t)i;
    sum += WEIGHT(i);
  }
  for (size_t i = count / 2; i > 0; i--) sift(&h, i - 1);
  while (h.count && kept < top_p * sum) kept += WEIGHT(take(&h));
  double at = draw(random) * kept;
  for (size_t i = count; i > h.count; i--) {
    at -= WEIGHT(order[i - 1]);
    if (at < 0) return order[i - 1];
  }
#undef WEIGHT
  return (uint32_t)best;
}

nabla_status nabla_decoder_sample(const float *logits, size_t count,
                                  const nabla_sampling *how, uint64_t *random,
                                  uint32_t *order, int64_t *out,
                                  nabla_diag *diag) {
  size_t best = 0;
  NABLA_REQUIRE(logits, diag);
  NABLA_REQUIRE(out, diag);
  if (how) NABLA_REQUIRE_SIZE(how, "nabla_sampling", diag);
  if (how && !(how->temperature >= 0 && isfinite(how->temperature)))
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "a temperature of %g is no number from 0",
                      how->temperature);
  if (how && !(how->top_p >= 0 && how->top_p <= 1))
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "a top_p of %g is not in 0 to 1", how->top_p);
  if (count > UINT32_MAX)
    return nabla_fail(diag, NABLA_TOO_LARGE, "%zu logits are too many", count);
  NABLA_TRY(find_greatest(logits, count, &best, diag));
  if (how && how->temperature > 0) {
    NABLA_REQUIRE(random, diag);
    NABLA_REQUIRE(order, diag);
    best = draw_token(logits, count, best, how, random, order);
  }
  *out = (int64_t)best;
  return NABLA_OK;
}

double nabla_decoder_log_sum(const float *logits, size_t count) {
  double most = -INFINITY, sum = 0;
  for (size_t i = 0; i < count; i++)
    if ((double)logits[i] > most) most = (double)logits[i];
  if (!isfinite(most)) return most;
  for (size_t i = 0; i < count; i++) sum += exp((double)logits[i] - most);
  return most + log(sum);
}
