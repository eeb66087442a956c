/* Steps of training of a dense model of two layers with AdamW, as
 * examples/train has them, for bench/train_step.py, which runs them beside
 * torch:
 *
 *   train_step IN WIDE OUT BATCH
 *
 * For each line of the standard input, a number of steps, they are run, and the
 * milliseconds of a step, by the clock and of the CPU, and the last loss are
 * written. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "nabla/derivative.h"

enum { LAYERS = 2 };

typedef struct weights {
  nabla_array *w[LAYERS];
} weights;
typedef struct training {
  weights p, m, v;
  nabla_array *t;
} training;

static const nabla_tree_member weights_members[] = {
    NABLA_TREE_MEMBER(weights, w)};
static const nabla_tree_layout weights_layout = NABLA_TREE_LAYOUT(weights);
static const nabla_tree_member training_members[] = {
    NABLA_TREE_MEMBER_STRUCT(training, p, weights_layout),
    NABLA_TREE_MEMBER_STRUCT(training, m, weights_layout),
    NABLA_TREE_MEMBER_STRUCT(training, v, weights_layout),
    NABLA_TREE_MEMBER(training, t)};
static const nabla_tree_layout training_layout = NABLA_TREE_LAYOUT(training);

/* ---- the step ---- */

/* Of (weights, x, y). */
static void loss(nabla_scope *scope, const nabla_tree *in, nabla_tree *out,
                 void *self) {
  (void)scope, (void)self;
  const weights *p = in->items[0].data;
  nabla_array *x = in->items[1].array;
  x = nabla_gelu(nabla_linear(x, p->w[0], nabla_none()));
  x = nabla_linear(x, p->w[1], nabla_none());
  out->array = nabla_mse(x, in->items[2].array);
}

static void update(nabla_scope *s, nabla_array *gradient, nabla_array *t,
                   nabla_array **p, nabla_array **m, nabla_array **v) {
  const double beta1 = .9, beta2 = .999, rate = .001, decay = .01;
  nabla_array *one = nabla_scalar(s, 1);
  nabla_array *b1 = nabla_scalar(s, beta1), *b2 = nabla_scalar(s, beta2);
  nabla_array *g1 = nabla_mul(gradient, nabla_scalar(s, 1 - beta1));
  nabla_array *g2 =
      nabla_mul(nabla_mul(gradient, gradient), nabla_scalar(s, 1 - beta2));
  *m = nabla_add(nabla_mul(*m, b1), g1);
  *v = nabla_add(nabla_mul(*v, b2), g2);
  nabla_array *mean = nabla_div(*m, nabla_sub(one, nabla_pow(b1, t)));
  nabla_array *square = nabla_div(*v, nabla_sub(one, nabla_pow(b2, t)));
  nabla_array *by =
      nabla_div(mean, nabla_add(nabla_sqrt(square), nabla_scalar(s, 1e-8)));
  by = nabla_add(by, nabla_mul(*p, nabla_scalar(s, decay)));
  *p = nabla_sub(*p, nabla_mul(by, nabla_scalar(s, rate)));
}

/* Of (training, x, y). */
static void step(nabla_scope *scope, const nabla_tree *in, nabla_tree *out,
                 void *self) {
  const training *now = in->items[0].data;
  training *next = out->items[1].data;
  weights gradient;
  nabla_tree given[3] = {nabla_tree_of_struct(&weights_layout, (void *)&now->p),
                         in->items[1], in->items[2]};
  nabla_tree made[2] = {nabla_tree_of_array(NULL),
                        nabla_tree_of_struct(&weights_layout, &gradient)};
  const nabla_tree arguments = nabla_tree_of_list(3, given);
  nabla_tree results = nabla_tree_of_list(2, made);
  if (nabla_function_call(self, &arguments, &results, NULL)) return;
  *next = *now;
  next->t = nabla_add(now->t, nabla_scalar(scope, 1));
  for (int i = 0; i < LAYERS; i++)
    update(scope, gradient.w[i], next->t, &next->p.w[i], &next->m.w[i],
           &next->v.w[i]);
  out->items[0].array = made[0].array;
}

/* ---- the run ---- */

/* scale sin(phase + i), as bench/train_step.py has it. */
static nabla_array *waves(nabla_scope *s, int64_t rows, int64_t columns,
                          double phase, double scale) {
  const int64_t shape[2] = {rows, columns};
  nabla_array *i =
      nabla_arange(s, NABLA_DTYPE_F64, 0, (double)(rows * columns), 1);
  nabla_array *x = nabla_mul(nabla_sin(nabla_add(i, nabla_scalar(s, phase))),
                             nabla_scalar(s, scale));
  return nabla_convert(nabla_reshape(x, 2, shape), NABLA_DTYPE_F32);
}

static double milliseconds(clockid_t clock) {
  struct timespec now;
  (void)clock_gettime(clock, &now);
  return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

static nabla_status run(nabla_function *function, const nabla_tree *in,
                        nabla_tree *out, int count, nabla_diag *diag) {
  nabla_dense value = {.data = NULL};
  nabla_status status = NABLA_OK;
  const double wall = milliseconds(CLOCK_MONOTONIC);
  const double cpu = milliseconds(CLOCK_PROCESS_CPUTIME_ID);
  for (int i = 0; i < count && !status; i++) {
    status = nabla_function_call(function, in, out, diag);
    if (!status) status = nabla_array_read(out->items[0].array, &value, diag);
  }
  if (status || !value.data) return status;
  printf("%.5f %.5f %.7g\n", (milliseconds(CLOCK_MONOTONIC) - wall) / count,
         (milliseconds(CLOCK_PROCESS_CPUTIME_ID) - cpu) / count,
         (double)*(const float *)value.data);
  return fflush(stdout) ? NABLA_IO : NABLA_OK;
}

static nabla_status work(nabla_scope *s, nabla_function *function,
                         const int64_t *sizes, int64_t batch,
                         nabla_diag *diag) {
  training now;
  char line[32];
  nabla_status status = NABLA_OK;
  for (int i = 0; i < LAYERS; i++) {
    now.p.w[i] =
        waves(s, sizes[i + 1], sizes[i], i, 1 / sqrt((double)sizes[i]));
    now.m.w[i] = nabla_zeros_like(now.p.w[i]);
    now.v.w[i] = nabla_zeros_like(now.p.w[i]);
  }
  now.t = nabla_zeros(s, NABLA_DTYPE_F32, 0, NULL);
  nabla_array *data[2] = {waves(s, batch, sizes[0], 3, 1),
                          waves(s, batch, sizes[2], 4, 1)};
  status = nabla_realize(s, 2, data, diag);
  nabla_tree items[3] = {nabla_tree_of_struct(&training_layout, &now),
                         nabla_tree_of_array(data[0]),
                         nabla_tree_of_array(data[1])};
  nabla_tree results[2] = {nabla_tree_of_array(NULL), items[0]};
  const nabla_tree in = nabla_tree_of_list(3, items);
  nabla_tree out = nabla_tree_of_list(2, results);
  while (!status && fgets(line, sizeof line, stdin)) {
    const long count = strtol(line, NULL, 10);
    if (count < 1 || count > 1000000) return NABLA_INVALID_ARGUMENT;
    status = run(function, &in, &out, (int)count, diag);
  }
  return status;
}

int main(int argc, char **argv) {
#define STEP(name)       \
  {                      \
    "0." name, "1." name \
  }
  static const nabla_function_replacement donated[] = {
      STEP("p.w.0"), STEP("p.w.1"), STEP("m.w.0"), STEP("m.w.1"),
      STEP("v.w.0"), STEP("v.w.1"), STEP("t")};
  int64_t sizes[4];
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_engine *engine = NULL;
  nabla_scope *scope = NULL;
  nabla_function *of_loss = NULL, *gradient = NULL, *of_step = NULL;
  for (int i = 0; i < 4; i++)
    sizes[i] = argc == 5 ? strtol(argv[i + 1], NULL, 10) : 0;
  if (sizes[0] < 1 || sizes[1] < 1 || sizes[2] < 1 || sizes[3] < 1) {
    fprintf(stderr, "usage: train_step IN WIDE OUT BATCH\n");
    return 2;
  }
  nabla_status status = nabla_engine_create(NULL, NULL, &engine, &diag);
  if (!status) status = nabla_scope_create(engine, &scope, &diag);
  if (!status)
    status = nabla_function_create(engine, loss, NULL, &of_loss, &diag);
  if (!status) status = nabla_value_and_grad(of_loss, NULL, &gradient, &diag);
  const nabla_function_options options = {
      .struct_size = sizeof options,
      .name = "step",
      .self = gradient,
      .donated = donated,
      .donated_count = sizeof donated / sizeof *donated};
  if (!status)
    status = nabla_function_create(engine, step, &options, &of_step, &diag);
  if (!status) status = work(scope, of_step, sizes, sizes[3], &diag);
  if (status) fprintf(stderr, "train_step: %s\n", diag.what);
  nabla_function_destroy(of_step);
  nabla_function_destroy(gradient);
  nabla_function_destroy(of_loss);
  nabla_scope_end(scope);
  nabla_engine_destroy(engine);
  return status != NABLA_OK;
}
