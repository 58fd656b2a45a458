"""Networks: pure functions from parameters and observations to outputs [batch, action, output].

Convolutions are written as matrix products: XLA runs those, and above all their weight gradients,
faster on CPUs than its own convolutions. Weights and biases are uniform in +-1/sqrt(fan_in).
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from edrl.core.check import fail, one_of
from edrl.deep.types import AnyArray, Observations

NetworkName = Literal["nature", "nips", "minatar", "mlp"]

# In larger images MinAtar's one small convolution leaves millions of weights to the next layer.
_LARGEST_MINATAR = 32
LEAST_VARIANCE = 1e-6  # of what is normalised: all equal outputs must not be divided by 0
_HEAD = 2  # layers: the last hidden one, and the outputs

Layer = dict[str, Float[Array, "..."]]
"""A bias [outputs] and a weight: [filters, inputs] of convolutions, [inputs, outputs] of others.

With layer normalisation, a gain and an offset [outputs] too.
"""


@dataclass(frozen=True)
class Convolution:
    """A square convolution without padding; its weight is [filters, kernel * kernel * channels]."""

    filters: int
    kernel: int
    stride: int


class Network(eqx.Module):
    """Convolutions (on [height, width, channels]), then dense layers with ReLUs, then outputs.

    Its `features` are what the last hidden layer takes; the `head` is the rest.
    """

    observation_shape: tuple[int, ...] = eqx.field(static=True)
    num_actions: int = eqx.field(static=True)
    num_outputs: int = eqx.field(static=True)  # for each action
    convolutions: tuple[Convolution, ...] = eqx.field(static=True, default=())
    hidden: tuple[int, ...] = eqx.field(static=True, default=(512,))
    scale: float = eqx.field(static=True, default=1.0)  # of observations: 1/255 for bytes
    layer_norm: bool = eqx.field(static=True, default=False)  # before every ReLU

    def __check_init__(self) -> None:
        self._layer_sizes()  # observations that do not fit are refused

    def init(self, key: PRNGKeyArray) -> list[Layer]:
        """Random parameters."""
        sizes = self._layer_sizes()
        keys = jax.random.split(key, len(sizes))
        layers = []
        for depth, (layer_key, size) in enumerate(zip(keys, sizes, strict=True)):
            # The layouts in which XLA's matrix products are fast, for gradients and single rows.
            layer = dense_layer(layer_key, *size, by_filter=depth < len(self.convolutions))
            if self.layer_norm and depth < len(sizes) - 1:
                layer |= {"gain": jnp.ones(size[1]), "offset": jnp.zeros(size[1])}
            layers.append(layer)
        return layers

    @property
    def num_features(self) -> int:
        """How many features an observation has."""
        return self._layer_sizes()[-_HEAD][0]

    def _layer_sizes(self) -> list[tuple[int, int]]:
        shape, sizes = self.observation_shape, []
        for layer in self.convolutions:
            if not _is_image(shape, layer) or _channels_first(self.observation_shape):
                right = _what_fits(self.observation_shape)
                raise fail("observation_shape", self.observation_shape, right)
            sizes.append((layer.kernel**2 * shape[2], layer.filters))
            height, width = (_places(length, layer) for length in shape[:2])
            shape = (height, width, layer.filters)
        widths = (int(np.prod(shape)), *self.hidden, self.num_actions * self.num_outputs)
        return [*sizes, *itertools.pairwise(widths)]

    def __call__(
        self, parameters: Sequence[Layer], observations: Observations
    ) -> Float[Array, "batch action output"]:
        """Outputs of observations of any dtype."""
        return self.head(parameters, self.features(parameters, observations))

    def features(
        self, parameters: Sequence[Layer], observations: Observations
    ) -> Float[Array, "batch feature"]:
        """What the last hidden layer takes."""
        x, scale = jnp.asarray(observations), self.scale
        for layer, weights in zip(self.convolutions, parameters, strict=False):
            x = _activated(_convolved(x, scale * weights["weight"], layer), weights)
            scale = 1.0
        x = x.reshape(len(x), -1).astype(jnp.float32) * scale
        for weights in parameters[len(self.convolutions) : -_HEAD]:
            x = _activated(x @ weights["weight"], weights)
        return x

    def head(
        self, parameters: Sequence[Layer], features: Float[Array, "*batch feature"]
    ) -> Float[Array, "*batch action output"]:
        """Outputs of features."""
        hidden, last = parameters[-_HEAD:]
        x = _activated(features @ hidden["weight"], hidden)
        outputs = x @ last["weight"] + last["bias"]
        return outputs.reshape(*features.shape[:-1], self.num_actions, self.num_outputs)


def network_for(
    name: str,
    observation_shape: Sequence[int],
    num_actions: int,
    num_outputs: int,
    scale: float = 1.0,
    layer_norm: bool = False,
) -> Network:
    """A network by name, with `num_outputs` for each action; `scale` multiplies the observations.

    `nature` is the network of DQN in Nature (2015), which the paper has, for 84 x 84 x 4 bytes.
    `nips` is that of 2013, with less than a third of the arithmetic. `minatar` is for
    10 x 10 x channels, and `mlp` for vectors.
    """
    shape = tuple(int(n) for n in observation_shape)
    if name not in get_args(NetworkName):
        raise fail("network", name, one_of(name, get_args(NetworkName)))
    if name == "minatar" and _is_large(shape):
        right = f"it is for 10 x 10 pixels, not {shape}: preset paper is for Atari"
        raise fail("network", name, f"{right}, MinAtar's games are minatar/NAME")
    convolutions, hidden = _LAYERS[name]
    return Network(shape, num_actions, num_outputs, convolutions, hidden, scale, layer_norm)


def hidden_units(name: NetworkName) -> tuple[int, ...]:
    """The sizes of a network's dense hidden layers."""
    return _LAYERS[name][1]


_LAYERS: dict[str, tuple[tuple[Convolution, ...], tuple[int, ...]]] = {
    "nature": ((Convolution(32, 8, 4), Convolution(64, 4, 2), Convolution(64, 3, 1)), (512,)),
    "nips": ((Convolution(16, 8, 4), Convolution(32, 4, 2)), (256,)),
    "minatar": ((Convolution(16, 3, 1),), (128,)),
    "mlp": ((), (256, 256)),
}


def dense_layer(key: PRNGKeyArray, inputs: int, outputs: int, *, by_filter: bool = False) -> Layer:
    """Random parameters of a layer; `by_filter` for a convolution's layout."""
    key_weight, key_bias = jax.random.split(key)
    bound = inputs**-0.5
    shape = (outputs, inputs) if by_filter else (inputs, outputs)
    return {
        "weight": jax.random.uniform(key_weight, shape, minval=-bound, maxval=bound),
        "bias": jax.random.uniform(key_bias, (outputs,), minval=-bound, maxval=bound),
    }


def kernel(
    convolution: Convolution, layer: Layer
) -> Float[np.ndarray, "filters row column channel"]:
    """A convolution's weights in the usual order, whatever the order of `_patches` is."""
    weight, size = np.asarray(layer["weight"]), convolution.kernel
    places = np.arange(weight.shape[1]).reshape(1, size, size, -1)
    usual = np.empty_like(weight)
    usual[:, np.asarray(_patches(places, convolution)).ravel()] = weight
    return usual.reshape(len(weight), *places.shape[1:])


def _activated(x: Float[Array, "*batch output"], layer: Layer) -> Float[Array, "*batch output"]:
    """A layer's bias, its normalisation (Ba et al., 2016) if it has one, and the ReLU."""
    x = x + layer["bias"]
    if "gain" in layer:
        centred = x - jnp.mean(x, axis=-1, keepdims=True)
        variance = jnp.mean(centred**2, axis=-1, keepdims=True)
        x = centred * jax.lax.rsqrt(variance + LEAST_VARIANCE) * layer["gain"] + layer["offset"]
    return jax.nn.relu(x)


def _places(length: int, layer: Convolution) -> int:
    """How many places a kernel has along an axis."""
    return (length - layer.kernel) // layer.stride + 1


def _is_image(shape: tuple[int, ...], layer: Convolution) -> bool:
    """Whether a convolution fits into it."""
    return len(shape) == 3 and min(shape[:2]) >= layer.kernel


def _is_large(shape: tuple[int, ...]) -> bool:
    is_image = len(shape) == 3 and not _channels_first(shape)
    return is_image and min(shape[:2]) > _LARGEST_MINATAR


def _channels_first(shape: tuple[int, ...]) -> bool:
    """Whether an image of few channels seems to have them on its first axis."""
    return len(shape) == 3 and shape[0] < shape[1] == shape[2]


def _what_fits(shape: tuple[int, ...]) -> str:
    """What would be right instead of observations that convolutions cannot take."""
    if len(shape) == 1:
        return "a vector has no place in convolutions: choose network mlp, which preset classic has"
    if len(shape) == 2:
        right = "an image has a third axis, its channels: add one"
        return f"{right} (gymnasium.wrappers.ReshapeObservation)"
    if _channels_first(shape):
        right = "the channels seem to come first: move them last"
        return f"{right} (gymnasium.wrappers.TransformObservation)"
    right = "convolutions need larger images"
    return f"{right}: choose the preset, or the network, that fits the environment"


def _convolved(
    x: Shaped[AnyArray, "batch height width channel"],
    weight: Float[Array, "filter patch"],
    layer: Convolution,
) -> Float[Array, "batch row column filter"]:
    """A convolution without its bias."""
    if _has_blocks(layer):
        # Bytes are moved as they are: a quarter of the memory.
        return _product_of_blocks(jnp.asarray(_blocks(x, layer), jnp.float32), weight)
    patches = _patches(x, layer).astype(jnp.float32)
    # One long axis: XLA makes faster loops of it than of batch, row and column.
    rows = patches.reshape(-1, patches.shape[-1]) @ weight.T
    return rows.reshape(*patches.shape[:-1], layer.filters)


def _has_blocks(layer: Convolution) -> bool:
    """Whether a kernel is made of blocks as large as the stride, more than one pixel each."""
    return layer.stride > 1 and layer.kernel % layer.stride == 0


def _blocks(
    x: Shaped[AnyArray, "batch height width channel"], layer: Convolution
) -> Shaped[AnyArray, "batch tall wide block"]:
    """Images cut into blocks as large as the stride, as many as the convolution looks at."""
    batch, height, width, channels = x.shape
    stride, more = layer.stride, layer.kernel // layer.stride - 1
    tall, wide = _places(height, layer) + more, _places(width, layer) + more
    x = x[:, : tall * stride, : wide * stride]
    x = x.reshape(batch, tall, stride, wide, stride, channels).transpose(0, 1, 3, 2, 4, 5)
    return x.reshape(batch, tall, wide, stride * stride * channels)


@jax.custom_vjp
def _product_of_blocks(
    x: Float[Array, "batch tall wide block"], weight: Float[Array, "filter patch"]
) -> Float[Array, "batch row column filter"]:
    """The convolution with a square of blocks: all blocks' products, shifted and added.

    Patches would hold every block four times where a kernel has 2 x 2. Products are made of each
    block once, for every place it has in a kernel.
    """
    batch, tall, wide, block = x.shape
    filters, size = len(weight), _blocks_across(weight, block)
    rows, columns = tall - size + 1, wide - size + 1
    products = x.reshape(-1, block) @ _by_block(weight, block)
    products = products.reshape(batch, tall, wide, size**2 * filters)
    found = jnp.zeros((batch, rows, columns, filters), products.dtype)
    for place, (i, j) in enumerate(itertools.product(range(size), repeat=2)):
        of_place = products[..., place * filters : (place + 1) * filters]
        found += of_place[:, i : i + rows, j : j + columns]
    return found


def _forward(
    x: Float[Array, "batch tall wide block"], weight: Float[Array, "filter patch"]
) -> tuple[Float[Array, "batch row column filter"], tuple[jax.Array, jax.Array]]:
    return _product_of_blocks(x, weight), (x, weight)


def _backward(
    given: tuple[jax.Array, jax.Array], change: Float[Array, "batch row column filter"]
) -> tuple[jax.Array, jax.Array]:
    """The gradients of both, of products that are laid side by side in one go; XLA adds them up."""
    x, weight = given
    block, filters = x.shape[-1], len(weight)
    size = _blocks_across(weight, block)
    places = [
        jnp.pad(change, ((0, 0), (i, size - 1 - i), (j, size - 1 - j), (0, 0)))
        for i, j in itertools.product(range(size), repeat=2)
    ]
    changes = jnp.concatenate(places, axis=-1).reshape(-1, size**2 * filters)
    of_weight = (x.reshape(-1, block).T @ changes).reshape(block, size**2, filters)
    of_x = (changes @ _by_block(weight, block).T).reshape(x.shape)
    return of_x, of_weight.transpose(2, 1, 0).reshape(weight.shape)


_product_of_blocks.defvjp(_forward, _backward)


def _blocks_across(weight: Float[Array, "filter patch"], block: int) -> int:
    """How many blocks of so many numbers a kernel has along an axis."""
    return int(np.sqrt(weight.shape[1] // block))


def _by_block(
    weight: Float[Array, "filter patch"], block: int
) -> Float[Array, "block place_and_filter"]:
    """The weights of a block at each of its places in the kernel, side by side."""
    filters = len(weight)
    return jnp.transpose(weight.reshape(filters, -1, block), (2, 1, 0)).reshape(block, -1)


def _patches(
    x: Shaped[AnyArray, "batch height width channel"], layer: Convolution
) -> Shaped[Array, "batch row column patch"]:
    """Patches of images, in the order (row, column, channel), or of blocks and then within each."""
    rows, columns = (_places(length, layer) for length in x.shape[1:3])
    if _has_blocks(layer):
        return _shifted(_blocks(x, layer), layer.kernel // layer.stride, rows, columns, 1)
    return _shifted(x, layer.kernel, rows, columns, layer.stride)


def _shifted(
    x: Shaped[AnyArray, "batch height width channel"], size: int, rows: int, columns: int, step: int
) -> Shaped[Array, "batch row column patch"]:
    """Copies of images, shifted by up to `size` pixels each way, side by side."""
    shifts = []
    for i, j in itertools.product(range(size), range(size)):
        down, right = i + step * (rows - 1) + 1, j + step * (columns - 1) + 1
        shifts.append(x[:, i:down:step, j:right:step])
    return jnp.concatenate(shifts, axis=-1)
