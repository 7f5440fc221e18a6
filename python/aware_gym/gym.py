"""gym.py - Gymnasium where it is installed, and as much of it as environments need where it is not.

The rest of the package imports BaseEnv, BaseVectorEnv and the spaces from here and does not ask
which they are.
"""

import numpy

try:
    import gymnasium
    from gymnasium.spaces import Box, Discrete, MultiDiscrete
    BaseEnv = gymnasium.Env
    BaseVectorEnv = gymnasium.vector.VectorEnv
except ImportError:
    gymnasium = None

    class Space:
        """What observations or actions may be; sample draws from a generator of its own."""

        def __init__(self, shape, dtype):
            self.shape = tuple(shape)
            self.dtype = numpy.dtype(dtype)
            self._random = None

        def seed(self, seed=None):
            self._random = numpy.random.default_rng(seed)
            return [seed]

        @property
        def np_random(self):
            if self._random is None:
                self.seed()
            return self._random

        def __contains__(self, value):
            return self.contains(value)

        def __eq__(self, other):
            return type(self) is type(other) and repr(self) == repr(other)

    class Box(Space):
        """Real numbers, each within its bounds."""

        def __init__(self, low, high, shape=None, dtype=numpy.float32):
            if shape is None:
                shape = numpy.broadcast_shapes(numpy.shape(low), numpy.shape(high))
            super().__init__(shape, dtype)
            self.low = numpy.broadcast_to(numpy.asarray(low, dtype), self.shape).copy()
            self.high = numpy.broadcast_to(numpy.asarray(high, dtype), self.shape).copy()

        def sample(self):
            """Uniform within finite bounds; exponential from one bound, normal without any."""
            random, low, high = self.np_random, self.low, self.high
            below, above = numpy.isfinite(low), numpy.isfinite(high)
            drawn = random.normal(size=self.shape)
            tail = random.exponential(size=self.shape)
            share = random.uniform(size=self.shape)
            with numpy.errstate(invalid="ignore"):
                drawn = numpy.where(below & ~above, low + tail, drawn)
                drawn = numpy.where(above & ~below, high - tail, drawn)
                drawn = numpy.where(below & above, low + share * (high - low), drawn)
            return drawn.astype(self.dtype)

        def contains(self, value):
            value = numpy.asarray(value)
            return (value.shape == self.shape and numpy.can_cast(value.dtype, self.dtype)
                    and bool(numpy.all((value >= self.low) & (value <= self.high))))

        def __repr__(self):
            return f"Box({self.low.tolist()}, {self.high.tolist()}, {self.shape}, {self.dtype})"

    class Discrete(Space):
        """One whole number in [0, n)."""

        def __init__(self, n):
            super().__init__((), numpy.int64)
            self.n = int(n)

        def sample(self):
            return self.np_random.integers(self.n)

        def contains(self, value):
            value = numpy.asarray(value)
            return (value.shape == () and numpy.issubdtype(value.dtype, numpy.integer)
                    and 0 <= int(value) < self.n)

        def __repr__(self):
            return f"Discrete({self.n})"

    class MultiDiscrete(Space):
        """Several whole numbers, each below its own n."""

        def __init__(self, nvec):
            self.nvec = numpy.asarray(nvec, numpy.int64)
            super().__init__(self.nvec.shape, numpy.int64)

        def sample(self):
            return self.np_random.integers(self.nvec)

        def contains(self, value):
            value = numpy.asarray(value)
            return (value.shape == self.shape and numpy.issubdtype(value.dtype, numpy.integer)
                    and bool(numpy.all((value >= 0) & (value < self.nvec))))

        def __repr__(self):
            return f"MultiDiscrete({self.nvec.tolist()})"

    class BaseEnv:
        """gymnasium.Env, as far as it has behaviour of its own."""

        metadata = {"render_modes": []}
        render_mode = None
        spec = None

        @property
        def np_random(self):
            return self._np_random

        @property
        def unwrapped(self):
            return self

        def render(self):
            """There is nothing to look at."""

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.close()

    class BaseVectorEnv(BaseEnv):
        """gymnasium.vector.VectorEnv, as far as it has behaviour of its own."""

        closed = False

        def close(self, **keywords):
            if not self.closed:
                self.close_extras(**keywords)
                self.closed = True


def autoreset_of(mode):
    """What a vector environment says of how it resets, from Gymnasium's own or its value; since
    1.1, before there was nothing to say."""
    value = getattr(mode, "value", mode)
    if value not in ("SameStep", "NextStep", "Disabled"):
        raise ValueError(f"autoreset_mode is SameStep, NextStep or Disabled, found {value!r}")
    modes = getattr(gymnasium.vector, "AutoresetMode", None) if gymnasium else None
    return modes(value) if modes else value


def register(names):
    """gymnasium.make("aware_gym:NAME", address=None, **options), and make_vec of the same."""
    for name in names if gymnasium else ():
        if name not in gymnasium.registry:
            gymnasium.register(id=name, entry_point="aware_gym.env:make",
                               vector_entry_point="aware_gym.env:make_vec",
                               kwargs={"name": name})


def batched(space, count):
    """The space of `count` values side by side."""
    if isinstance(space, Discrete):
        return MultiDiscrete(numpy.full(count, space.n))
    repeats = (count,) + (1,) * len(space.shape)
    return Box(numpy.tile(space.low, repeats), numpy.tile(space.high, repeats), dtype=space.dtype)
