"""Networks: from observations to raw outputs [batch, action, output], as pure functions of their parameters.

Convolutions are written as matrix products of patches: XLA runs those, and above all their weight gradients, faster
on CPUs than its own convolutions. Weights and biases are uniform in +-1/sqrt(fan_in).
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np

from edrl.core.check import fail

NetworkName = Literal["nature", "nips", "minatar", "mlp"]

_LARGEST_MINATAR = 32  # pixels, beyond which its one small convolution leaves millions of weights to the next layer

Parameters = list[dict[str, jax.Array]]
"""One entry a layer: a bias [outputs] and a weight, of convolutions [filters, inputs], of others [inputs, outputs]."""


@dataclass(frozen=True)
class Convolution:
    """A square convolution without padding; its weight is [filters, kernel * kernel * channels]."""

    filters: int
    kernel: int
    stride: int


@dataclass(frozen=True)
class Network:
    """Convolutions (on [height, width, channels]), then dense layers with ReLUs, then `outputs` for each action."""

    observation_shape: tuple[int, ...]
    num_actions: int
    num_outputs: int
    convolutions: tuple[Convolution, ...] = ()
    hidden: tuple[int, ...] = (512,)
    scale: float = 1.0  # of observations: 1/255 for bytes

    def __post_init__(self) -> None:
        self._layer_sizes()  # observations that do not fit are refused

    def init(self, key: jax.Array) -> Parameters:
        """Random parameters."""
        sizes = self._layer_sizes()
        keys = jax.random.split(key, len(sizes))
        return [
            # The layouts in which XLA's matrix products are fast, weight gradients and single observations included.
            _layer(layer_key, *size, by_filter=depth < len(self.convolutions))
            for depth, (layer_key, size) in enumerate(zip(keys, sizes, strict=True))
        ]

    def _layer_sizes(self) -> list[tuple[int, int]]:
        shape, sizes = self.observation_shape, []
        for layer in self.convolutions:
            if len(shape) != 3 or min(shape[:2]) < layer.kernel or _channels_first(self.observation_shape):
                raise fail("observation_shape", self.observation_shape, _what_fits(self.observation_shape))
            sizes.append((layer.kernel**2 * shape[2], layer.filters))
            shape = (*((length - layer.kernel) // layer.stride + 1 for length in shape[:2]), layer.filters)
        widths = (int(np.prod(shape)), *self.hidden, self.num_actions * self.num_outputs)
        return [*sizes, *itertools.pairwise(widths)]

    def __call__(self, parameters: Parameters, observations: Any) -> Any:
        """Outputs [batch, action, output] of observations [batch, ...], of any dtype."""
        x, scale = observations, self.scale
        for layer, weights in zip(self.convolutions, parameters, strict=False):
            # Patches are cut from bytes as they are: a quarter of the memory to move.
            patches = _patches(x, layer).astype(jnp.float32)
            x, scale = jax.nn.relu(patches @ (scale * weights["weight"]).T + weights["bias"]), 1.0
        x = x.reshape(len(x), -1).astype(jnp.float32) * scale
        *hidden, last = parameters[len(self.convolutions) :]
        for weights in hidden:
            x = jax.nn.relu(x @ weights["weight"] + weights["bias"])
        return (x @ last["weight"] + last["bias"]).reshape(-1, self.num_actions, self.num_outputs)


def _channels_first(shape: tuple[int, ...]) -> bool:
    """Whether an image of few channels seems to have them on its first axis."""
    return len(shape) == 3 and shape[0] < shape[1] == shape[2]


def _what_fits(shape: tuple[int, ...]) -> str:
    """What would be right instead of observations that convolutions cannot take."""
    if len(shape) == 1:
        return "a vector has no place in convolutions: choose network mlp, which preset classic has"
    if len(shape) == 2:
        return "an image has a third axis, its channels: add one (gymnasium.wrappers.ReshapeObservation)"
    if _channels_first(shape):
        return "the channels seem to come first: move them last (gymnasium.wrappers.TransformObservation)"
    return "convolutions need larger images: choose the preset, or the network, that fits the environment"


def network_for(
    name: NetworkName, observation_shape: Sequence[int], num_actions: int, num_outputs: int, scale: float = 1.0
) -> Network:
    """A network by name.

    For 84 x 84 x 4 bytes that of the DQN of 2015 in Nature, which the paper has, and that of 2013 at NIPS, with less
    than a third of the arithmetic; MinAtar's for 10 x 10 x channels; an MLP for vectors. `scale` multiplies the
    observations.
    """
    shape = tuple(int(n) for n in observation_shape)
    if name == "nature":
        layers = (Convolution(32, 8, 4), Convolution(64, 4, 2), Convolution(64, 3, 1))
        return Network(shape, num_actions, num_outputs, layers, (512,), scale)
    if name == "nips":
        return Network(shape, num_actions, num_outputs, (Convolution(16, 8, 4), Convolution(32, 4, 2)), (256,), scale)
    if name == "minatar":
        if len(shape) == 3 and min(shape[:2]) > _LARGEST_MINATAR and not _channels_first(shape):
            right = (
                f"it is for 10 x 10 pixels, not {shape}: preset paper is for Atari, MinAtar's games are minatar/NAME"
            )
            raise fail("network", name, right)
        return Network(shape, num_actions, num_outputs, (Convolution(16, 3, 1),), (128,), scale)
    if name == "mlp":
        return Network(shape, num_actions, num_outputs, (), (256, 256), scale)
    raise fail("network", name, f"it must be one of {', '.join(get_args(NetworkName))}")


def _layer(key: jax.Array, inputs: int, outputs: int, *, by_filter: bool) -> dict[str, jax.Array]:
    key_weight, key_bias = jax.random.split(key)
    bound = inputs**-0.5
    return {
        "weight": jax.random.uniform(
            key_weight, (outputs, inputs) if by_filter else (inputs, outputs), minval=-bound, maxval=bound
        ),
        "bias": jax.random.uniform(key_bias, (outputs,), minval=-bound, maxval=bound),
    }


def _patches(x: Any, layer: Convolution) -> Any:
    """Patches [batch, height, width, kernel * kernel * channels] of images, in the order (row, column, channel).

    Where the stride divides the kernel, images are first cut into blocks as large as the stride, so that the patches
    are few shifted copies of whole blocks.
    """
    batch, height, width, channels = x.shape
    rows, columns = ((length - layer.kernel) // layer.stride + 1 for length in (height, width))
    stride = layer.stride if layer.kernel % layer.stride == 0 else 1
    if stride == 1:
        step = layer.stride
        shifts = [
            x[:, i : i + step * (rows - 1) + 1 : step, j : j + step * (columns - 1) + 1 : step]
            for i in range(layer.kernel)
            for j in range(layer.kernel)
        ]
        return jnp.concatenate(shifts, axis=-1)
    blocks = layer.kernel // stride
    tall, wide = rows + blocks - 1, columns + blocks - 1
    x = x[:, : tall * stride, : wide * stride].reshape(batch, tall, stride, wide, stride, channels)
    x = x.transpose(0, 1, 3, 2, 4, 5).reshape(batch, tall, wide, stride * stride * channels)
    shifts = [x[:, i : i + rows, j : j + columns] for i in range(blocks) for j in range(blocks)]
    return jnp.concatenate(shifts, axis=-1)
