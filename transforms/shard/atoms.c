/* See atoms.h. */
#include "transforms/shard/atoms.h"

#include <string.h>

static bool add(nabla_atoms *out, uint32_t axis, int64_t before, int64_t size) {
  if (out->count == NABLA_MAX_ATOMS) return false;
  out->axis[out->count] = (uint8_t)axis;
  out->before[out->count] = before;
  out->size[out->count++] = size;
  return true;
}

bool nabla_atoms_of(const nabla_mesh *mesh, nabla_atoms *out) {
  *out = (nabla_atoms){0};
  for (uint32_t a = 0; a < mesh->count; a++) {
    int64_t left = mesh->sizes[a], before = 1;
    for (int64_t p = 2; left > 1; p += p * p > left ? left - p : 1)
      for (; left % p == 0; left /= p, before *= p)
        if (!add(out, a, before, p)) return false;
  }
  int64_t stride = 1;
  for (uint32_t i = out->count; i-- > 0; stride *= out->size[i])
    out->stride[i] = stride;
  return true;
}

static bool add_ref(const nabla_atoms *atoms, uint32_t axis,
                    const nabla_axis_ref *ref, int64_t whole,
                    nabla_atom_list *out) {
  int64_t at = ref->before;
  const int64_t end = ref->before * (ref->size ? ref->size : whole);
  for (uint32_t i = 0; i < atoms->count && at < end; i++) {
    if (atoms->axis[i] != axis || atoms->before[i] != at) continue;
    if (out->count == NABLA_MAX_ATOMS) return false;
    out->at[out->count++] = (uint8_t)i;
    at *= atoms->size[i];
  }
  return at == end;
}

bool nabla_atoms_list(const nabla_atoms *atoms, const nabla_mesh *mesh,
                      const nabla_axis_list *axes, nabla_atom_list *out) {
  *out = (nabla_atom_list){0};
  for (uint32_t i = 0; i < axes->count; i++) {
    const int axis = nabla_mesh_axis(mesh, axes->at[i].name);
    if (axis < 0 ||
        !add_ref(atoms, (uint32_t)axis, &axes->at[i], mesh->sizes[axis], out))
      return false;
  }
  return true;
}

bool nabla_atoms_axes(const nabla_atoms *atoms, const nabla_mesh *mesh,
                      const nabla_atom_list *list, nabla_axis_list *out) {
  *out = (nabla_axis_list){0};
  for (uint32_t i = 0; i < list->count; i++) {
    const uint8_t atom = list->at[i];
    nabla_axis_ref *last = out->count ? &out->at[out->count - 1] : NULL;
    const char *name = mesh->axes[atoms->axis[atom]];
    if (last && !strcmp(last->name, name) &&
        last->before * last->size == atoms->before[atom]) {
      last->size *= atoms->size[atom];
      continue;
    }
    if (out->count == NABLA_MESH_MAX_AXES) return false;
    nabla_axis_ref *at = &out->at[out->count++];
    memcpy(at->name, name, sizeof at->name);
    at->before = atoms->before[atom];
    at->size = atoms->size[atom];
  }
  for (uint32_t i = 0; i < out->count; i++) {
    const int axis = nabla_mesh_axis(mesh, out->at[i].name);
    if (out->at[i].size == mesh->sizes[axis]) out->at[i].size = 0;
  }
  return true;
}

int64_t nabla_atoms_product(const nabla_atoms *atoms,
                            const nabla_atom_list *list) {
  int64_t product = 1;
  for (uint32_t i = 0; i < list->count; i++)
    product *= atoms->size[list->at[i]];
  return product;
}
