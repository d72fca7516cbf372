"""Counter-based random numbers: Philox 4x32-10 (Salmon et al., 2011), from the same keys as everywhere.

A key is (seed, generation, member, rollout); the generator's key is (seed, generation), its counter (member, rollout,
stream, block). Four 32-bit numbers come out of every block, and nothing depends on what was drawn before.
"""

import warp as wp

MULTIPLY_0, MULTIPLY_1 = wp.constant(wp.uint64(0xD2511F53)), wp.constant(wp.uint64(0xCD9E8D57))
WEYL_0, WEYL_1 = wp.constant(wp.uint32(0x9E3779B9)), wp.constant(wp.uint32(0xBB67AE85))
HALF_WORD = wp.constant(wp.uint64(32))
UNIT = wp.constant(wp.float32(2.0**-24))
TURN = wp.constant(wp.float32(6.283185307179586))

word4 = wp.types.vector(4, wp.uint32)


@wp.func
def philox(counter: word4, seed: wp.uint32, generation: wp.uint32):
    """Return the four numbers of a block."""
    x = counter
    k0 = seed
    k1 = generation
    for _ in range(10):
        p0 = MULTIPLY_0 * wp.uint64(x[0])
        p1 = MULTIPLY_1 * wp.uint64(x[2])
        x = word4(
            wp.uint32(p1 >> HALF_WORD) ^ x[1] ^ k0,
            wp.uint32(p1),
            wp.uint32(p0 >> HALF_WORD) ^ x[3] ^ k1,
            wp.uint32(p0),
        )
        k0 = k0 + WEYL_0
        k1 = k1 + WEYL_1
    return x


@wp.func
def uniform(word: wp.uint32):
    """Return a number in (0, 1], never 0; it is 1 about once in 17 million times, by rounding."""
    return (wp.float32(word >> wp.uint32(8)) + 0.5) * UNIT


@wp.func
def normals(w: word4):
    """Return four standard normal numbers (Box and Muller, 1958)."""
    r0 = wp.sqrt(-2.0 * wp.log(uniform(w[0])))
    r1 = wp.sqrt(-2.0 * wp.log(uniform(w[2])))
    t0 = TURN * uniform(w[1])
    t1 = TURN * uniform(w[3])
    return wp.vec4(r0 * wp.cos(t0), r0 * wp.sin(t0), r1 * wp.cos(t1), r1 * wp.sin(t1))


@wp.struct
class Key:
    """The key of an episode."""

    seed: wp.uint32
    generation: wp.uint32
    member: wp.uint32
    rollout: wp.uint32


@wp.func
def words(key: Key, stream: int, block: int):
    """Return the four numbers of a block of one of the streams of a key."""
    counter = word4(key.member, key.rollout, wp.uint32(stream), wp.uint32(block))
    return philox(counter, key.seed, key.generation)
