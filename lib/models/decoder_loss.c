/* The loss of a decoder over a text, and what packing its weights has cost:
 * nabla/decoder.h. */
#include <math.h>

#include "lib/base/memory.h"
#include "lib/base/require.h"
#include "lib/runtime/session/session_internal.h"
#include "nabla/decoder.h"

/* One model that reads the text. */
typedef struct reader {
  nabla_session *session; /* NULL: there is none */
  nabla_decoder_limits limits;
  float *logits;
} reader;

static nabla_status open_reader(reader *r, const nabla_allocator *allocator,
                                nabla_diag *diag) {
  void *logits = NULL;
  if (!r->session) return NABLA_OK;
  NABLA_TRY(
      nabla_decoder_find_limits(r->session->executable, &r->limits, diag));
  NABLA_TRY(nabla_alloc(allocator, (size_t)r->limits.vocabulary,
                        sizeof *r->logits, &logits, diag));
  r->logits = logits;
  return NABLA_OK;
}

static nabla_status feed(const reader *r, int64_t id, uint64_t position,
                         nabla_diag *diag) {
  if (!r->session) return NABLA_OK;
  return nabla_decoder_run(r->session, &id, 1, position, r->logits,
                           (size_t)r->limits.vocabulary, diag);
}

/* KL(p, q) of the two distributions. */
static double divergence(const reader *p, const reader *q) {
  const size_t count = (size_t)p->limits.vocabulary;
  const double of_p = nabla_decoder_log_sum(p->logits, count),
               of_q = nabla_decoder_log_sum(q->logits, count);
  double sum = 0;
  for (size_t i = 0; i < count; i++) {
    const double log_p = (double)p->logits[i] - of_p;
    if (log_p > -INFINITY)
      sum += exp(log_p) * (log_p - ((double)q->logits[i] - of_q));
  }
  return sum;
}

static nabla_status read_all(const reader *r, const reader *other,
                             const int64_t *ids, size_t count,
                             nabla_decoder_loss *out, nabla_diag *diag) {
  const size_t words = (size_t)r->limits.vocabulary;
  uint64_t room = r->limits.context, position = 0;
  if (other->session && other->limits.context < room)
    room = other->limits.context;
  for (size_t i = 0; i + 1 < count; i++) {
    const int64_t next = ids[i + 1];
    if (position == room || ids[i] == ids[0]) position = 0;
    NABLA_TRY(feed(r, ids[i], position, diag));
    NABLA_TRY(feed(other, ids[i], position, diag));
    position++;
    if (next == ids[0] || next < 0 || (uint64_t)next >= words) continue;
    out->loss +=
        nabla_decoder_log_sum(r->logits, words) - (double)r->logits[next];
    if (other->session) out->divergence += divergence(other, r);
    out->tokens++;
  }
  if (!out->tokens) return NABLA_OK;
  out->loss /= (double)out->tokens;
  out->divergence /= (double)out->tokens;
  return NABLA_OK;
}

nabla_status nabla_decoder_measure_loss(nabla_session *session,
                                        nabla_session *reference,
                                        const int64_t *ids, size_t count,
                                        nabla_decoder_loss *out,
                                        nabla_diag *diag) {
  NABLA_REQUIRE(session, diag);
  if (count) NABLA_REQUIRE(ids, diag);
  NABLA_REQUIRE(out, diag);
  const nabla_allocator *allocator = session->allocator;
  reader r = {.session = session}, other = {.session = reference};
  nabla_decoder_loss loss = {0};
  nabla_status status = open_reader(&r, allocator, diag);
  if (!status) status = open_reader(&other, allocator, diag);
  if (!status && reference && r.limits.vocabulary != other.limits.vocabulary)
    status = nabla_fail(
        diag, NABLA_INVALID_ARGUMENT,
        "the model has %llu tokens, the one that it is compared with %llu",
        (unsigned long long)r.limits.vocabulary,
        (unsigned long long)other.limits.vocabulary);
  if (!status) status = read_all(&r, &other, ids, count, &loss, diag);
  nabla_free(allocator, r.logits, (size_t)r.limits.vocabulary,
             sizeof *r.logits);
  nabla_free(allocator, other.logits, (size_t)other.limits.vocabulary,
             sizeof *other.logits);
  if (!status) *out = loss;
  return status;
}
