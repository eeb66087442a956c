"""Gradients through nabla.shard_map against those of jax.shard_map, on four of
eight simulated devices; skipped where jax is not installed.

  shard_map_jax.py NABLA_RUN NABLA_OPT TIER"""
import os
import sys
import tempfile

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"
try:
    import jax
    from jax import lax
    from jax import numpy as jnp
    from jax.sharding import Mesh, PartitionSpec
except ImportError:
    print("skipped: jax is not installed")
    raise SystemExit(77)
import numpy as np

import shard_map

BODIES = {
    "sum": lambda a, b: lax.psum(jnp.sin(a).sum(1), "b") * b,
    "data_parallel": lambda a, b: a @ b.T,
    "zero": lambda a, b: a @ lax.all_gather(b, "a", axis=0, tiled=True).T,
    "gathered_twice": lambda a, b: jnp.sin(
        a * jnp.cos(lax.all_gather(b, "a", axis=0, tiled=True)).sum()),
    "megatron": lambda a, b, c: lax.psum(jnp.sin(a @ b.T) @ c.T, "b"),
    "scatter": lambda a: lax.psum_scatter(
        jnp.sin(a), "a", scatter_dimension=0, tiled=True),
    "all_to_all": lambda a: lax.all_to_all(jnp.sin(a), "b", 0, 1, tiled=True),
    "permute": lambda a: lax.ppermute(
        jnp.sin(a), ("a", "b"), [(0, 1), (1, 2), (3, 0)]),
    "two_axes": lambda a, b: jnp.sin(a * b[:, None]),
    "equal_and_varying": lambda a, b: lax.psum(jnp.sin(a) * b, "b")
                         * (jnp.sin(a) * jnp.sin(a)) * b,
}


def spec(axes):
    return PartitionSpec(*[tuple(ax) if ax else None for ax in axes])


def main():
    mesh = Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("a", "b"))
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        for case in shard_map.CASES:
            if case[0] not in BODIES:
                continue
            function = jax.shard_map(
                BODIES[case[0]], mesh=mesh,
                in_specs=tuple(spec(ax) for _, ax in case[1]),
                out_specs=spec(case[3]))
            arguments = [rng.uniform(-1, 1, s).astype(np.float32)
                         for s, _ in case[1]]
            y, pull = jax.vjp(function, *arguments)
            cotangent = rng.uniform(-1, 1, y.shape).astype(np.float32)
            want = [np.asarray(g) for g in pull(jnp.asarray(cotangent))]
            path = os.path.join(folder, "p.mlir")
            derived = os.path.join(folder, "v.mlir")
            with open(path, "w", encoding="utf-8") as file:
                file.write(shard_map.program(case))
            shard_map.call(sys.argv[2], path, "--nabla-vjp=function=f", "-o",
                           derived)
            got = shard_map.run_program(
                sys.argv[1:3], folder, derived, "f.vjp",
                arguments + [cotangent], 1 + len(arguments))
            for i, expected in enumerate([np.asarray(y)] + want):
                shard_map.compare(case, "output %d" % i, got[i], expected)
    print("%d regions: results and gradients equal jax %s's" % (
        len(BODIES), jax.__version__))


main()
