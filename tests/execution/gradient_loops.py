"""Cases of gradients.py with loops and regions that reverse mode changes: remat
of regions and of scans, while with max_steps, carries that are no tensors."""
import numpy as np

from gradient_cases import maker, tensor


@maker
def regions(m):
    c = m.new("remat", "remat", "barrier")
    x, t = c.input((3, 4), hide=(0,))
    w, wt = c.input((4,))
    c.lines.append("""  %%r, %%q = nabla.remat -> %s, tensor<4xKIND> {
    %%a = nabla.exp %s : %s
    %%b = nabla.reduce sum %%a dims = [0] : %s
    %%i = nabla.remat -> tensor<4xKIND> {
      %%c = nabla.mul %%b, %s : tensor<4xKIND>, %s
      %%d = nabla.sin %%c : tensor<4xKIND>
      nabla.yield %%d : tensor<4xKIND>
    }
    nabla.yield %%a, %%i : %s, tensor<4xKIND>
  }""" % (t, x, t, t, w, wt, t))
    c.give("%r", t, (3, 4))
    c.give(c.op("nabla.mul %%q, %s : tensor<4xKIND>, %s" % (w, wt)), wt, (4,))
    c = m.new("barrier")
    x, t = c.input((3,))
    y, s = c.input((2,))
    z, _ = c.input((3,))
    c.lines.append("  %%p, %%q = nabla.barrier %s, %s, %s : %s, %s, %s" % (
        x, y, z, t, s, t))
    c.give(c.op("nabla.mul %%p, %s : %s, %s" % (z, t, t)), t, (3,))
    c.give("%q", s, (2,))


def scan_with_remat(m, every, length, reverse, hidden):
    c = m.new("scan_remat", "scan")
    h, ht = c.input((4,), -1, 1)
    xs, xt = c.input((length, 4), -1, 1, hide=(0,) if hidden else ())
    w, wt = c.input((4,), -1, 1)
    out = tensor([None if hidden else length, 4])
    c.lines.append("  %n0 = nabla.constant dense<1> : tensor<i64>")
    c.lines.append("""  %%h, %%n, %%ys = nabla.scan init(%s, %%n0 : %s, tensor<i64>) over(%s : %s) %s remat = %d
      -> %s, tensor<i64>, %s {
  ^bb0(%%s: %s, %%k: tensor<i64>, %%x: tensor<4xKIND>):
    %%a = nabla.mul %%s, %s : %s, %s
    %%b = nabla.add %%a, %%x : %s, tensor<4xKIND>
    %%c = nabla.tanh %%b : %s
    %%f = nabla.convert %%k : tensor<i64> -> tensor<KIND>
    %%g = nabla.broadcast_in_dim %%f dims = [] : tensor<KIND> -> %s
    %%d = nabla.mul %%c, %%g : %s, %s
    %%one = nabla.constant dense<1> : tensor<i64>
    %%next = nabla.add %%k, %%one : tensor<i64>, tensor<i64>
    nabla.yield %%c, %%next, %%d : %s, tensor<i64>, %s
  }""" % (h, ht, xs, xt, reverse, every, ht, out, ht, w, ht, wt, ht, ht, ht, ht,
          ht, ht, ht))
    c.give("%h", ht, (4,))
    c.give("%ys", out, (length, 4))


@maker
def scans_with_remat(m):
    for every, length, reverse, hidden in (
            (2, 5, "", False), (2, 5, "reverse", True), (2, 4, "reverse", False),
            (3, 7, "", True), (2, 1, "", True), (1, 3, "", False),
            (9, 5, "", False)):
        scan_with_remat(m, every, length, reverse, hidden)
    c = m.new("scan_remat_length", "scan")
    h, ht = c.input((3,), -1, 1)
    c.lines.append("""  %%l = arith.constant 7 : index
  %%h = nabla.scan init(%s : %s) length(%%l) remat = 3 -> %s {
  ^bb0(%%s: %s):
    %%a = nabla.sin %%s : %s
    nabla.yield %%a : %s
  }""" % (h, ht, ht, ht, ht, ht))
    c.give("%h", ht, (3,))


@maker
def whiles(m):
    """Steps until a number is large, at most `most`."""
    for most, remat in ((9, ""), (2, ""), (9, " remat = 3"), (0, "")):
        c = m.new("while_max_steps", "while")
        x, t = c.argument(np.array([.5, .25, .75]))
        w, wt = c.argument(np.array([1.5, 1.25, 1.75]))
        c.lines.append("""  %%k0 = arith.constant 0 : index
  %%r, %%k = nabla.while(%s, %%k0) : %s, index max_steps = %d%s cond {
  ^bb0(%%s: %s, %%k: index):
    %%sum = nabla.reduce sum %%s dims = [0] : %s
    %%most = nabla.full 8.0 : KIND -> tensor<KIND>
    %%p = nabla.compare lt %%sum, %%most : tensor<KIND>, tensor<KIND>
    %%half = nabla.sin %%s : %s
    %%more = nabla.add %%s, %%half : %s, %s
    nabla.condition %%p, %%more, %%k : tensor<i1>, %s, index
  } do {
  ^bb0(%%s: %s, %%k: index):
    %%y = nabla.mul %%s, %s : %s, %s
    %%one = arith.constant 1 : index
    %%next = arith.addi %%k, %%one : index
    nabla.yield %%y, %%next : %s, index
  }""" % (x, t, most, remat, t, t, t, t, t, t, t, w, t, wt, t))
        c.give("%r", t, (3,))


@maker
def number_carries(m):
    """Carries of type index and i32, which the body uses.

    A quarter keeps the product of the four slopes below 2: it was 432,
    and bf16 had no digit left.
    """
    c = m.new("scan_numbers", "scan")
    h, ht = c.input((3,), -1, 1)
    c.lines.append("""  %%l = arith.constant 4 : index
  %%one = arith.constant 1 : index
  %%i0 = arith.constant 3 : i32
  %%h, %%k, %%i = nabla.scan init(%s, %%one, %%i0 : %s, index, i32) length(%%l) -> %s, index, i32 {
  ^bb0(%%s: %s, %%k: index, %%i: i32):
    %%j = arith.index_cast %%k : index to i32
    %%p = arith.muli %%j, %%i : i32
    %%n = tensor.from_elements %%p : tensor<i32>
    %%f = nabla.convert %%n : tensor<i32> -> tensor<KIND>
    %%g = nabla.broadcast_in_dim %%f dims = [] : tensor<KIND> -> %s
    %%q = nabla.constant dense<0.25> : %s
    %%e = nabla.mul %%g, %%q : %s, %s
    %%a = nabla.mul %%s, %%e : %s, %s
    %%b = nabla.sin %%a : %s
    %%next = arith.addi %%k, %%one : index
    nabla.yield %%b, %%next, %%j : %s, index, i32
  }""" % (h, ht, ht, ht, ht, ht, ht, ht, ht, ht, ht, ht))
    c.give("%h", ht, (3,))
