"""PTO arithmetic inside neural networks: quantised layers, their gradients, scales.

Plain functions of arrays, for any library of layers. Forward passes are PTO instructions, backward passes
the derivative of a reference in JAX.

>>> import jax, jax.numpy as jnp
>>> from pto_jax import nn
>>> x, w = jnp.ones((8, 16)), jnp.full((16, 4), 0.25)
>>> y = nn.linear(x, w, format="int8")
>>> y.shape, jax.grad(lambda w: nn.linear(x, w, format="fp8").sum())(w)[0, 0].item()
((8, 4), 8.0)
"""

from .layers import linear, straight_through
from .quantisation import Quantised, calibrate, dequantise, quantise
from .weights import load_weights, save_weights

__all__ = [
    "Quantised",
    "calibrate",
    "dequantise",
    "linear",
    "load_weights",
    "quantise",
    "save_weights",
    "straight_through",
]
