/* Kernels made ahead of time for the tensors of a plan: how many have one, and
 * the nearest format for those that have not. */
#include <string.h>

#include "tools/nabla-quant/cli.h"

#define KINDS_MAX 8 /* that are shown */

uint64_t cli_row_length(const nabla_tensor *tensor) {
  uint64_t length = 1;
  for (uint32_t i = 1; i < tensor->rank; i++) length *= tensor->shape[i];
  return length;
}

int cli_nearest_kernel(const nabla_format *format, uint64_t k, char out[64]) {
  nabla_format nearest;
  if (!nabla_format_nearest_kernel(format, k, &nearest)) return 0;
  cli_format_text(&nearest, out);
  return 1;
}

/* Tensors of one format and row length without a kernel. */
typedef struct kind {
  nabla_format format;
  uint64_t k, tensors;
} kind;

static void count_kind(kind *kinds, size_t *count, const nabla_format *format,
                       uint64_t k) {
  size_t i = 0;
  while (i < *count &&
         (kinds[i].k != k || !nabla_format_equal(&kinds[i].format, format)))
    i++;
  if (i == KINDS_MAX) return;
  if (i == *count) kinds[(*count)++] = (kind){*format, k, 0};
  kinds[i].tensors++;
}

static void print_kind(const kind *k) {
  char format[64], nearest[64];
  cli_format_text(&k->format, format);
  printf(
      "  none for %s with rows of %llu (%llu tensor%s), which are computed "
      "in C, several times slower; ",
      format, (unsigned long long)k->k, (unsigned long long)k->tensors,
      cli_plural((uint32_t)k->tensors));
  if (cli_nearest_kernel(&k->format, k->k, nearest))
    printf("the nearest that has one is %s\n", nearest);
  else
    printf("no encoding has one for such rows\n");
}

void cli_plan_kernels_line(const nabla_checkpoint *checkpoint,
                           const nabla_plan *plan) {
  kind kinds[KINDS_MAX];
  size_t count = 0, quantized = 0, with = 0;
  for (size_t i = 0; i < nabla_plan_count(plan); i++) {
    const nabla_plan_row row = nabla_plan_get(plan, i);
    if (!row.quantized) continue;
    const nabla_tensor tensor = nabla_checkpoint_tensor(checkpoint, row.tensor);
    const uint64_t k = cli_row_length(&tensor);
    quantized++;
    if (nabla_format_has_kernel(&row.format, k))
      with++;
    else
      count_kind(kinds, &count, &row.format, k);
  }
  if (!quantized) return;
  printf("kernels made ahead of time (AVX2 or better) for %zu of %zu\n", with,
         quantized);
  for (size_t i = 0; i < count; i++) print_kind(&kinds[i]);
}
