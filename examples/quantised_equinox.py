"""A classifier of handwritten digits with int8 layers, in Equinox: python examples/quantised_equinox.py.

Needs the extra "frameworks" and scikit-learn.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from pto_jax import nn


class QuantisedLinear(eqx.nn.Linear):
    """``eqx.nn.Linear`` whose product is computed in a number format of the hardware."""

    format: str = eqx.field(static=True)

    def __init__(self, *args, format="int8", **kwargs):
        """``format`` as for ``pto_jax.nn.linear``, the others as for ``eqx.nn.Linear``."""
        super().__init__(*args, **kwargs)
        self.format = format

    def __call__(self, x, *, key=None):
        """The layer of one example [features], as Equinox has it; ``jax.vmap`` makes batches of it."""
        return nn.linear(x, self.weight.T, self.bias, format=self.format)


def quantised(model, format):
    """The same model with every linear layer in a format, whichever it was trained in."""

    def is_linear(x):
        return isinstance(x, eqx.nn.Linear)

    def replaced(layer):
        if not is_linear(layer):
            return layer
        made = QuantisedLinear(layer.in_features, layer.out_features, key=jax.random.key(0), format=format)
        return eqx.tree_at(lambda m: (m.weight, m.bias), made, (layer.weight, layer.bias))

    return jax.tree.map(replaced, model, is_leaf=is_linear)


def train(format: str = "int8", steps: int = 150) -> float:
    """Train on 1,500 digits, and give the accuracy on the other 297."""
    images, labels = load_digits(return_X_y=True)
    split = train_test_split(images / 16, labels, test_size=297, stratify=labels, random_state=0)
    x, test_x = (jnp.asarray(part, jnp.float32) for part in split[:2])
    y, test_y = (jnp.asarray(part) for part in split[2:])
    model = quantised(eqx.nn.MLP(64, 10, 64, 1, key=jax.random.key(0)), format)
    adam = optax.adam(3e-3)
    state = adam.init(eqx.filter(model, eqx.is_inexact_array))

    @eqx.filter_jit
    def step(model, state, x, y):
        def loss(model):
            return optax.softmax_cross_entropy_with_integer_labels(jax.vmap(model)(x), y).mean()

        updates, state = adam.update(eqx.filter_grad(loss)(model), state)
        return eqx.apply_updates(model, updates), state

    draw = np.random.default_rng(0)
    for _ in range(steps):
        chosen = draw.integers(0, len(x), 128)
        model, state = step(model, state, x[chosen], y[chosen])
    return float((jax.vmap(model)(test_x).argmax(1) == test_y).mean())


if __name__ == "__main__":
    for name in ("f32", "int8"):
        print(f"{name}: accuracy {train(name):.1%}")
