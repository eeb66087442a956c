"""Feed-forward layouts of Pope et al. 2022 ("Efficiently Scaling Transformer Inference", 3.2)
on a modelled mesh of 8 x 8 devices: bytes that the first device of the partitioned program
receives equal their formulas, and the layout of fewest bytes changes with the number of rows
(batch times length) as theirs does: 2D weight-stationary, weights gathered along one axis,
along both.

usage: feed_forward_layouts.py NABLA_RUN NABLA_OPT"""
import re
import subprocess
import sys

from auto_shard import received

X = Y = 8
N = X * Y
WIDTH, HIDDEN = 512, 2048  # E and F
ROWS = (64, 256, 1024, 4096, 32768, 131072)  # B L

# Shardings of x, up [F, E], down [E, F] and the result as they are kept; then those of x, up,
# h = up x, silu(h) and down where they are used.
BOTH = '"x", "y"'
LAYOUTS = {
    "1d": (("{}, {%s}" % BOTH, "{%s}, {}" % BOTH, "{}, {%s}" % BOTH, "{}, {%s}" % BOTH),
           ("{}, {}", "{%s}, {}" % BOTH, "{}, {%s}" % BOTH, "{}, {%s}" % BOTH,
            "{}, {%s}" % BOTH)),
    "2d": (("{}, {%s}" % BOTH, '{"y"}, {"x"}', '{"x"}, {"y"}', "{}, {%s}" % BOTH),
           ('{}, {"x"}', '{"y"}, {"x"}', '{}, {"y", "x"}', '{}, {"y"}', '{"x"}, {"y"}')),
    "gathered x": (('{"x"}, {"y"}', '{"y"}, {"x"}', '{"x"}, {"y"}', '{"x"}, {"y"}'),
                   ('{"x"}, {}', '{"y"}, {}', '{"x"}, {"y"}', '{"x"}, {"y"}',
                    '{}, {"y"}')),
    "gathered xy": (("{%s}, {}" % BOTH, '{"y"}, {"x"}', '{"x"}, {"y"}', "{%s}, {}" % BOTH),
                    ("{%s}, {}" % BOTH, "{}, {}", "{%s}, {}" % BOTH, "{%s}, {}" % BOTH,
                     "{}, {}")),
}


def formula(layout, rows):
    """Bytes of f32 that a device receives by a ring."""
    x, y = (X - 1) / X, (Y - 1) / Y
    activations, weights = rows * WIDTH, 2 * WIDTH * HIDDEN
    return int(4 * {
        "1d": 2 * activations * (N - 1) / N,
        "2d": 2 * activations / X * y + 2 * rows * HIDDEN / Y * x,
        "gathered x": weights / Y * x + 2 * activations / X * y,
        "gathered xy": weights * (N - 1) / N,
    }[layout])


def program(name, layout, rows):
    kept, used = LAYOUTS[layout]
    x, up, h = "tensor<%dx%dxf32>" % (rows, WIDTH), "tensor<%dx%dxf32>" % (
        HIDDEN, WIDTH), "tensor<%dx%dxf32>" % (rows, HIDDEN)
    down = "tensor<%dx%dxf32>" % (WIDTH, HIDDEN)

    def sharding(dims):
        return "#nabla.sharding<@m, [%s]>" % dims

    def reshard(out, value, kind, dims):
        return "  %%%s = nabla.reshard %%%s : %s sharding = %s\n" % (out, value, kind,
                                                                   sharding(dims))
    arguments = ", ".join("%%%s: %s {nabla.sharding = %s}" % (n, k, sharding(d)) for n, k, d in
                          zip(("x", "up", "down"), (x, up, down), kept))
    return ("func.func private @%s(%s) -> (%s {nabla.sharding = %s}) {\n" % (
        name, arguments, x, sharding(kept[3])) +
            reshard("xu", "x", x, used[0]) + reshard("upu", "up", up, used[1]) +
            "  %%p = nabla.linear %%xu, %%upu : %s, %s\n" % (x, up) +
            reshard("h", "p", h, used[2]) + "  %%s = nabla.silu %%h : %s\n" % h +
            reshard("su", "s", h, used[3]) + reshard("downu", "down", down, used[4]) +
            "  %%q = nabla.linear %%su, %%downu : %s, %s\n" % (h, down) +
            reshard("r", "q", x, kept[3]) + "  return %%r : %s\n}\n" % x)


def main():
    cases = [(layout, rows) for rows in ROWS for layout in LAYOUTS]
    text = 'nabla.mesh @m <["x"=%d, "y"=%d]>\n' % (X, Y)
    text += "".join(program("f%d" % i, *case) for i, case in enumerate(cases))
    done = subprocess.run([sys.argv[2], "-", "--nabla-propagate-sharding", "--nabla-partition"],
                          input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    best, wrong = {}, 0
    for (layout, rows), body in zip(cases, re.split(r"\n  func\.func ", done.stdout)[1:]):
        found = sum(received(line, {"x": X, "y": Y}) for line in body.split("\n"))
        print("%6d rows, %-11s %9d bytes, by the formula %9d" % (
            rows, layout, found, formula(layout, rows)))
        if found != formula(layout, rows):
            print(body)
            wrong += 1
        best[rows] = min(best.get(rows, (found, layout)), (found, layout))
    order = [best[rows][1] for rows in ROWS]
    print("fewest bytes:", ", ".join(order))
    if wrong or order != ["2d"] * 2 + ["gathered x"] * 2 + ["gathered xy"] * 2:
        raise SystemExit("not as in the paper")


if __name__ == "__main__":
    main()
