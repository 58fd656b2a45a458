"""Networks: their matrix products are convolutions, and initial weights are as bounded as they
should be.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from edrl.deep.networks import Convolution, Network, _convolved, _patches, network_for


@pytest.mark.parametrize(
    "layer",
    [
        Convolution(5, 8, 4), Convolution(5, 4, 2), Convolution(5, 6, 2), Convolution(5, 2, 2),
        Convolution(5, 3, 1), Convolution(5, 3, 2),
    ],
)  # fmt: skip
def test_matrix_products_are_convolutions(layer: Convolution) -> None:
    """VALID padding, as XLA has it, with the gradients of both.

    Patches of numbered pixels tell which entry of a patch is which pixel.
    """
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=(2, 21, 22, 3)), jnp.float32)
    size = layer.kernel**2 * 3
    weight = jnp.asarray(rng.normal(size=(size, layer.filters)), jnp.float32)
    # Which pixel of the kernel a row of the weight belongs to: patches of an image that numbers its
    # pixels.
    pixels = jnp.arange(layer.kernel**2 * 3, dtype=jnp.float32).reshape(
        1, layer.kernel, layer.kernel, 3
    )
    order = np.asarray(_patches(pixels, layer))[0, 0, 0].astype(int)

    def by_xla(x: jax.Array, weight: jax.Array) -> jax.Array:
        kernel = jnp.zeros((size, layer.filters)).at[order].set(weight)
        return jax.lax.conv_general_dilated(
            x, kernel.reshape(layer.kernel, layer.kernel, 3, -1), (layer.stride, layer.stride),
            "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )  # fmt: skip

    def ours(x: jax.Array, weight: jax.Array) -> jax.Array:
        return jnp.asarray(_convolved(x, weight.T, layer))

    expected, gradients = jax.vjp(by_xla, x, weight)
    found, our_gradients = jax.vjp(ours, x, weight)
    np.testing.assert_allclose(_patches(x, layer) @ weight, expected, atol=1e-4)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    change = jnp.asarray(rng.normal(size=expected.shape), jnp.float32)
    for one, other in zip(our_gradients(change), gradients(change), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-3)


def test_nature_network() -> None:
    """84 x 84 x 4 bytes to 20 x 20 x 32, 9 x 9 x 64, 7 x 7 x 64, 512; parameters uniform in
    +-1/sqrt(fan_in).
    """
    network = network_for("nature", (84, 84, 4), 6, 11, 1 / 255)
    parameters = network.init(jax.random.key(0))
    shapes = [(32, 256), (64, 512), (64, 576), (3136, 512), (512, 66)]
    assert [layer["weight"].shape for layer in parameters] == shapes
    for layer, inputs in zip(parameters, (256, 512, 576, 3136, 512), strict=True):
        bound = inputs**-0.5
        for leaf in layer.values():
            assert float(jnp.abs(leaf).max()) <= bound
        assert float(layer["weight"].std()) == pytest.approx(bound / 3**0.5, rel=0.05)
    out = network(parameters, np.zeros((2, 84, 84, 4), np.uint8))
    assert out.shape == (2, 6, 11)
    assert out.dtype == jnp.float32
    # Bytes are divided by 255.
    white, one = np.full((1, 84, 84, 4), 255, np.uint8), np.ones((1, 84, 84, 4), np.float32)
    unscaled = Network(network.observation_shape, 6, 11, network.convolutions, network.hidden)
    np.testing.assert_allclose(network(parameters, white), unscaled(parameters, one), atol=1e-5)


@pytest.mark.parametrize(
    ("name", "shape"),
    [("nature", (84, 84, 4)), ("nips", (84, 84, 4)), ("minatar", (10, 10, 4)), ("mlp", (4,))],
)
def test_a_network_is_its_layers_with_relus_between_them(name: Any, shape: tuple[int, ...]) -> None:
    """In NumPy, layer by layer; the last one is linear."""
    network = network_for(name, shape, 3, 2, scale=0.5)
    parameters = network.init(jax.random.key(0))
    x = np.random.default_rng(0).normal(size=(2, *shape)).astype(np.float32)
    *hidden, last = [jax.tree.map(np.asarray, layer) for layer in parameters]
    y = 0.5 * x
    for depth, weights in enumerate(hidden):
        if depth < len(network.convolutions):
            y = np.asarray(_patches(y, network.convolutions[depth])) @ weights["weight"].T
        else:
            y = y.reshape(2, -1) @ weights["weight"]
        y = np.maximum(y + weights["bias"], 0)
        assert (y == 0).any()
    expected = (y @ last["weight"] + last["bias"]).reshape(2, 3, 2)
    np.testing.assert_allclose(network(parameters, x), expected, atol=1e-4)


def test_the_network_of_2013() -> None:
    """84 x 84 x 4 bytes to 20 x 20 x 16, 9 x 9 x 32, 256."""
    network = network_for("nips", (84, 84, 4), 6, 11, 1 / 255)
    assert [layer["weight"].shape for layer in network.init(jax.random.key(0))] == [
        (16, 256), (32, 256), (2592, 256), (256, 66),
    ]  # fmt: skip
    assert network.scale == 1 / 255


@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        ("nature", (4,), "choose network mlp"),
        ("nature", (84, 84), "add one"),
        ("nature", (4, 84, 84), "move them last"),
        ("minatar", (4, 84, 84), "move them last"),
        ("nature", (10, 10, 4), "larger images"),
    ],
)
def test_what_convolutions_cannot_take_is_explained(
    name: Any, shape: tuple[int, ...], words: str
) -> None:
    with pytest.raises(ValueError, match=f"observation_shape.*{words}"):
        network_for(name, shape, 3, 1)


def test_wide_images_are_no_channels_first() -> None:
    """After the first layer of 100 x 132 pixels there are 24 x 32 of 32 filters."""
    assert network_for("nature", (100, 132, 3), 3, 1).init(jax.random.key(0))
    with pytest.raises(ValueError, match=r"network is 'minatar'.*preset paper is for Atari"):
        network_for("minatar", (84, 84, 4), 3, 1)


def test_images_that_are_too_small_are_refused() -> None:
    with pytest.raises(ValueError, match="observation_shape"):
        network_for("nature", (10, 10, 4), 3, 1).init(jax.random.key(0))
    with pytest.raises(ValueError, match="nature, nips, minatar, mlp"):
        network_for("resnet", (4,), 3, 1)  # type: ignore[arg-type]
