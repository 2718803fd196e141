"""A classifier of handwritten digits with int8 layers, in Flax NNX: python examples/quantised_flax.py.

Needs the extra "frameworks" and scikit-learn.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from sklearn.datasets import load_digits

from pto_jax import nn


class QuantisedLinear(nnx.Linear):
    """``nnx.Linear`` whose product is computed in a number format of the hardware."""

    def __init__(self, *args, format="int8", **kwargs):
        """``format`` as for ``pto_jax.nn.linear``, the others as for ``nnx.Linear``."""
        super().__init__(*args, **kwargs)
        self.format = format

    def __call__(self, x):
        """The layer of examples [..., features]."""
        return nn.linear(x, self.kernel[...], self.bias[...], format=self.format)


class Classifier(nnx.Module):
    """One hidden layer of 64."""

    def __init__(self, format, rngs):
        """Parameters are drawn from ``rngs``."""
        self.hidden = QuantisedLinear(64, 64, format=format, rngs=rngs)
        self.out = QuantisedLinear(64, 10, format=format, rngs=rngs)

    def __call__(self, x):
        """Logits [..., 10] of images [..., 64]."""
        return self.out(nnx.relu(self.hidden(x)))


def train(format: str = "int8", steps: int = 150) -> float:
    """Train, and give the accuracy on the last 297 digits."""
    data = load_digits()
    x, y = jnp.asarray(data.data / 16, jnp.float32), jnp.asarray(data.target)
    model = Classifier(format, nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(3e-3), wrt=nnx.Param)

    @nnx.jit
    def step(model, optimizer, x, y):
        def loss(model):
            return optax.softmax_cross_entropy_with_integer_labels(model(x), y).mean()

        optimizer.update(model, nnx.grad(loss)(model))

    draw = np.random.default_rng(0)
    for _ in range(steps):
        chosen = draw.integers(0, 1500, 128)
        step(model, optimizer, x[chosen], y[chosen])
    return float((model(x[1500:]).argmax(1) == y[1500:]).mean())


if __name__ == "__main__":
    print(f"accuracy {train():.1%}")
