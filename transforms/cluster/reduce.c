/* Reductions of the lanes of a vector, as a tree of halves. */
#include "transforms/cluster/body.h"

/* Lanes `lane` and `lane + count / 2` of a vector of `count` lanes. */
nabla_ssa nabla_cluster_lanes(nabla_cluster_body *b,
                              nabla_cluster_reduction reduction,
                              nabla_ssa vector) {
  /* whole vectors throughout: the upper half is combined with itself */
  for (unsigned distance = NABLA_LANES / 2; distance; distance /= 2) {
    nabla_text line = {0};
    nabla_text_add(&line, "vector.shuffle %%v%u, %%v%u [", vector, vector);
    for (unsigned i = 0; i < NABLA_LANES; i++)
      nabla_text_add(&line, "%s%u", i ? ", " : "",
                     (i + distance) % NABLA_LANES);
    nabla_text_add(&line, "] : vector<16xf32>, vector<16xf32>");
    nabla_ssa other = k_taken(b->e, &line);
    vector = nabla_cluster_combine(b, reduction, vector, other);
  }
  return k_op(b->e, "vector.extract %%v%u[0] : f32 from vector<16xf32>",
              vector);
}
