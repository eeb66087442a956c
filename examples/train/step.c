/* The model, its loss, and a step of AdamW, written with arrays. */
#include "train.h"

nabla_array *model(nabla_array *x, const base *w, const adapters *p) {
  for (int i = 0; i < LAYERS; i++) {
    nabla_array *y = nabla_linear(x, w->w[i], nabla_none());
    if (p)
      y = nabla_add(y, nabla_linear(nabla_linear(x, p->a[i], nabla_none()),
                                    p->b[i], nabla_none()));
    x = i < LAYERS - 1 ? nabla_gelu(y) : y;
  }
  return x;
}

void loss(nabla_scope *scope, const nabla_tree *in, nabla_tree *out,
          void *self) {
  (void)scope, (void)self;
  nabla_array *y =
      model(in->items[2].array, in->items[1].data, in->items[0].data);
  out->array = nabla_mse(y, in->items[3].array);
}

/* AdamW of one array: writes the next p, m and v. */
static void update(nabla_scope *s, nabla_array *gradient, nabla_array *t,
                   nabla_array **p, nabla_array **m, nabla_array **v) {
  const double beta1 = .9, beta2 = .999, rate = .01, decay = .01;
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

void step(nabla_scope *scope, const nabla_tree *in, nabla_tree *out,
          void *self) {
  const training *now = in->items[0].data;
  training *next = out->items[1].data;
  adapters gradient;
  nabla_tree arguments[4] = {
      nabla_tree_of_struct(&adapters_layout, (void *)&now->p), in->items[1],
      in->items[2], in->items[3]};
  nabla_tree results[2] = {nabla_tree_of_array(NULL),
                           nabla_tree_of_struct(&adapters_layout, &gradient)};
  const nabla_tree given = nabla_tree_of_list(4, arguments);
  nabla_tree wanted = nabla_tree_of_list(2, results);
  if (nabla_function_call(self, &given, &wanted, NULL)) return;
  *next = *now;
  next->t = nabla_add(now->t, nabla_scalar(scope, 1));
  for (int i = 0; i < LAYERS; i++) {
    update(scope, gradient.a[i], next->t, &next->p.a[i], &next->m.a[i],
           &next->v.a[i]);
    update(scope, gradient.b[i], next->t, &next->p.b[i], &next->m.b[i],
           &next->v.b[i]);
  }
  out->items[0].array = results[0].array;
}
