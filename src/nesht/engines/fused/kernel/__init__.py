"""The fused kernel in the Python Warp language: one source for CPU and CUDA, in single and double precision.

Every file builds a few small Warp functions that are specialised to one robot: its constants become literals, its loops
unroll, and what it does not have is not compiled. Read them in this order: `shapes` (types), `kinematics`, `dynamics`,
`constraints`, `solver`, `integrators`, `task`, `episode`; `random` and `members` stand by themselves.

Warp reads the source of these functions, so that they follow its rules, not all of Python's: loops over a constant
range unroll, `wp.static(...)` is evaluated while compiling, numbers have one type. A variable that a `while` or a
dynamic `for` changes must start as a copy, `real(x)`; of a constant, such a copy may only be made outside of every
branch, since Warp makes it once and uses it wherever the constant occurs from then on.
"""
