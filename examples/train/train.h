/* The structs of the example, and what a step of training is. */
#ifndef EXAMPLES_TRAIN_TRAIN_H
#define EXAMPLES_TRAIN_TRAIN_H

#include "nabla/derivative.h"

enum { LAYERS = 2, RANK = 8, BATCH = 64, STEPS = 50 };
static const int64_t sizes[LAYERS + 1] = {64, 256, 64};

typedef struct adapters {
  nabla_array *a[LAYERS], *b[LAYERS];
} adapters;
typedef struct training { /* what a step changes */
  adapters p, m, v;       /* parameters, and means of their gradients */
  nabla_array *t;         /* steps so far */
} training;
typedef struct base {
  nabla_array *w[LAYERS]; /* packed: no step changes it */
} base;

static const nabla_tree_member adapters_members[] = {
    NABLA_TREE_MEMBER(adapters, a), NABLA_TREE_MEMBER(adapters, b)};
static const nabla_tree_layout adapters_layout = NABLA_TREE_LAYOUT(adapters);
static const nabla_tree_member training_members[] = {
    NABLA_TREE_MEMBER_STRUCT(training, p, adapters_layout),
    NABLA_TREE_MEMBER_STRUCT(training, m, adapters_layout),
    NABLA_TREE_MEMBER_STRUCT(training, v, adapters_layout),
    NABLA_TREE_MEMBER(training, t)};
static const nabla_tree_layout training_layout = NABLA_TREE_LAYOUT(training);
static const nabla_tree_member base_members[] = {NABLA_TREE_MEMBER(base, w)};
static const nabla_tree_layout base_layout = NABLA_TREE_LAYOUT(base);

/* The model; p is NULL for the weights alone. */
nabla_array *model(nabla_array *x, const base *w, const adapters *p);
/* Traced functions. Of (adapters, base, x, y): the mean square of model(x) - y.
 */
void loss(nabla_scope *scope, const nabla_tree *in, nabla_tree *out,
          void *self);
/* Of (training, base, x, y): the loss, and the training behind a step of AdamW;
 * `self` is the function of value and gradients of `loss`. */
void step(nabla_scope *scope, const nabla_tree *in, nabla_tree *out,
          void *self);

#endif
