/* Reductions of the lanes of a vector, as a tree of halves. */
#include "transforms/cluster/body.h"

/* Lanes `lane` and `lane + count / 2` of a vector of `count` lanes. */
nabla_ssa nabla_cluster_lanes(nabla_cluster_body *b,
                              nabla_cluster_reduction reduction,
                              nabla_ssa vector) {
  /* whole vectors throughout: the upper half is combined with itself */
  const unsigned count = b->lanes_of_vectors;
  const char *type = nabla_cluster_type(b);
  for (unsigned distance = count / 2; distance; distance /= 2) {
    nabla_text line = {0};
    nabla_text_add(&line, "vector.shuffle %%v%u, %%v%u [", vector, vector);
    for (unsigned i = 0; i < count; i++)
      nabla_text_add(&line, "%s%u", i ? ", " : "", (i + distance) % count);
    nabla_text_add(&line, "] : %s, %s", type, type);
    nabla_ssa other = k_taken(b->e, &line);
    vector = nabla_cluster_combine(b, reduction, vector, other);
  }
  return k_op(b->e, "vector.extract %%v%u[0] : %s from %s", vector,
              b->lane->type[NABLA_SCALAR], type);
}
