"""A classifier of handwritten digits with int8 layers, in Flax NNX: python examples/quantised_flax.py.

Needs the extra "frameworks" and scikit-learn.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

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
    """Train on 1,500 digits, and give the accuracy on the other 297."""
    images, labels = load_digits(return_X_y=True)
    split = train_test_split(images / 16, labels, test_size=297, stratify=labels, random_state=0)
    x, test_x = (jnp.asarray(part, jnp.float32) for part in split[:2])
    y, test_y = (jnp.asarray(part) for part in split[2:])
    model = Classifier(format, nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(3e-3), wrt=nnx.Param)

    @nnx.jit
    def step(model, optimizer, x, y):
        def loss(model):
            return optax.softmax_cross_entropy_with_integer_labels(model(x), y).mean()

        optimizer.update(model, nnx.grad(loss)(model))

    draw = np.random.default_rng(0)
    for _ in range(steps):
        chosen = draw.integers(0, len(x), 128)
        step(model, optimizer, x[chosen], y[chosen])
    return float((model(test_x).argmax(1) == test_y).mean())


if __name__ == "__main__":
    for name in ("f32", "int8"):
        print(f"{name}: accuracy {train(name):.1%}")
