"""Vector environments with the names of Gymnasium's."""

import enum

import numpy


class AutoresetMode(enum.Enum):
    NEXT_STEP = "NextStep"
    SAME_STEP = "SameStep"
    DISABLED = "Disabled"


class VectorEnv:
    metadata = {}
    closed = False
    _np_random = None
    _np_random_seed = None

    @property
    def unwrapped(self):
        return self

    @property
    def np_random(self):
        if self._np_random is None:
            self._np_random = numpy.random.default_rng()
        return self._np_random

    def close(self, **keywords):
        if not self.closed:
            self.close_extras(**keywords)
            self.closed = True

    def close_extras(self, **keywords):
        """Nothing to free."""

    def __del__(self):
        if not self.closed:
            self.close()
