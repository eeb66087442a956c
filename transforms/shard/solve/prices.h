/* Prices of memory: a limit of what is held in each moment becomes a price of
 * each byte that is held in some moments, which makes another problem of choice
 * without a limit (Lagrangian relaxation). Functions are defined in prices.c.
 */
#ifndef NABLA_TRANSFORMS_SHARD_SOLVE_PRICES_H
#define NABLA_TRANSFORMS_SHARD_SOLVE_PRICES_H

#include "transforms/shard/solve/choice.h"

typedef struct nabla_choice_prices {
  const nabla_choice *given;
  nabla_choice priced;      /* the problem with prices            */
  nabla_choice_node *nodes; /* of `priced`                        */
  nabla_choice_edge *edges;
  double *weights, all; /* of the moments, and their sum      */
  double *sums;         /* of the prices before each moment   */
  uint64_t *held;       /* in each moment, of the last solution */
} nabla_choice_prices;

/* False if out of memory; to be given to nabla_choice_prices_deinit in any
 * case. `given` stays where it is. */
bool nabla_choice_prices_init(nabla_choice_prices *p,
                              const nabla_choice *given);
void nabla_choice_prices_deinit(nabla_choice_prices *p);

/* Makes `priced`: `price` seconds for each byte, shared among the moments by
 * their weights. */
void nabla_choice_prices_set(nabla_choice_prices *p, double price);

/* What a solution holds in the moment that has most, and the mean by weight of
 * all moments. */
typedef struct nabla_choice_held {
  uint64_t most;
  uint32_t moment;
  double mean;
} nabla_choice_held;
nabla_choice_held nabla_choice_prices_held(nabla_choice_prices *p,
                                           const uint32_t *chosen);

/* No solution with these nodes fixed (UINT32_MAX: free) holds less in the
 * moment that has most. */
uint64_t nabla_choice_prices_least(nabla_choice_prices *p,
                                   const uint32_t *fixed);

#endif
