"""Spaces with the names and members of Gymnasium's."""

import numpy


class Space:
    def __init__(self, shape, dtype):
        self.shape, self.dtype = shape, numpy.dtype(dtype)
        self.seed()

    def seed(self, seed=None):
        self.random = numpy.random.default_rng(seed)
        return seed


class Box(Space):
    def __init__(self, low, high, shape=None, dtype=numpy.float32):
        assert shape is None and low.shape == high.shape and low.dtype == dtype
        super().__init__(low.shape, dtype)
        self.low, self.high = low, high

    def sample(self):
        return self.random.uniform(self.low, self.high).astype(self.dtype)

    def contains(self, value):
        return (isinstance(value, numpy.ndarray) and value.dtype == self.dtype
                and value.shape == self.shape
                and bool(numpy.all((value >= self.low) & (value <= self.high))))


class Discrete(Space):
    def __init__(self, n):
        super().__init__((), numpy.int64)
        self.n, self.start = n, 0

    def sample(self):
        return self.random.integers(self.n)

    def contains(self, value):
        return 0 <= int(value) < self.n


class MultiDiscrete(Space):
    def __init__(self, nvec):
        self.nvec = nvec
        super().__init__(nvec.shape, numpy.int64)

    def sample(self):
        return self.random.integers(self.nvec)

    def contains(self, value):
        return bool(numpy.all((value >= 0) & (value < self.nvec)))
