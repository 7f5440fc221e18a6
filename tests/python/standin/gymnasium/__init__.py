"""A stand-in with the names of Gymnasium 1.1 that aware_gym uses and the behaviour that its manual
states for them: enough to show that its classes are taken where it is installed."""

import numpy

registry = {}


def register(id, **how):  # pylint: disable=redefined-builtin
    """As a name is found by make."""
    registry[id] = how


class Env:
    metadata = {"render_modes": []}
    render_mode = None
    spec = None
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

    def close(self):
        """Nothing to free."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
        return False


from . import spaces, vector  # these stand on Env
