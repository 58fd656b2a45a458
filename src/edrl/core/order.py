"""Sorting and merging rows by networks of comparisons, many times as fast as XLA's sort on a CPU.

XLA's own sort calls a function for each comparison. A bitonic network compares more, but always
the same places: one pass over a whole batch after another, in vector instructions. All passes are
the same few lines in a loop, so that it compiles as quickly as a sort does.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from edrl.core.types import Array, AtomsLike, Float, Int

_FEW = 16  # up to here comparing all pairs takes no longer


def sorted_rows(x: AtomsLike) -> jax.Array:
    """`x [..., n]` in increasing order; there are no NaN among the numbers."""
    x = jnp.asarray(x)
    n = x.shape[-1]
    if n > _FEW:
        return _rows(_network([_padded(_columns(x), jnp.inf)], 1)[0][:n], x.shape)
    place = jnp.arange(n)
    one, other = x[..., :, None], x[..., None, :]
    is_before = (other < one) | ((other == one) & (place[None, :] < place[:, None]))
    rank = jnp.sum(is_before, axis=-1, dtype=jnp.int32)
    return jnp.sum(jnp.where(rank[..., None, :] == place[:, None], other, 0), axis=-1)


def sorted_pairs(
    keys: Float[Array, "*batch n"], others: Float[Array, "*batch n"]
) -> tuple[Float[jax.Array, "*batch n"], Float[jax.Array, "*batch n"]]:
    """Keys in increasing order, and others in the order of their keys; NaN spreads over its row."""
    keys, others = jnp.asarray(keys), jnp.asarray(others)
    lost = jnp.any(jnp.isnan(keys), axis=-1, keepdims=True)
    columns = [_padded(_columns(keys), jnp.inf), _padded(_columns(others), 0)]
    first, second = (_rows(x[: keys.shape[-1]], keys.shape) for x in _network(columns, 1))
    return jnp.where(lost, jnp.nan, first), second


def merged_rows(
    lists: Sequence[Float[jax.Array, "*batch n"]],
) -> tuple[Float[jax.Array, "*batch m"], Int[jax.Array, "*batch m"]]:
    """Lists that are sorted already as one, and which of them each number is from."""
    shape, size = lists[0].shape, len(lists) * lists[0].shape[-1]
    runs = 1 << (len(lists) - 1).bit_length()
    keys = [_padded(_columns(x), jnp.inf) for x in lists]
    keys += [jnp.full_like(keys[0], jnp.inf)] * (runs - len(lists))
    # A network merges runs that rise and fall by turns.
    turned = jnp.concatenate([x[::-1] if i % 2 else x for i, x in enumerate(keys)])
    source = jnp.repeat(jnp.arange(runs, dtype=jnp.int32), len(keys[0]))[:, None]
    columns = [turned, jnp.broadcast_to(source, turned.shape)]
    shape = (*shape[:-1], size)
    merged, source = (_rows(x[:size], shape) for x in _network(columns, len(keys[0])))
    return merged, source


search = jnp.vectorize(lambda numbers, x: jnp.searchsorted(numbers, x), signature="(n),(k)->(k)")
"""How many of the sorted `numbers [..., n]` are less than each of x [..., k]."""


def _columns(x: jax.Array) -> jax.Array:
    """[n, rows] of [..., n]: neighbours in memory are to be treated alike."""
    return x.reshape(-1, x.shape[-1]).T


def _rows(x: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    return x.T.reshape(shape)


def _padded(x: jax.Array, filling: float) -> jax.Array:
    """Columns whose length is a power of two."""
    missing = (1 << (len(x) - 1).bit_length()) - len(x)
    return jnp.pad(x, ((0, missing), (0, 0)), constant_values=filling)


def _network(columns: Sequence[jax.Array], run: int) -> list[jax.Array]:
    """Columns [m, rows] sorted by the first of them; runs of that length rise and fall by turns in
    it.

    Batcher's bitonic sort: runs of twice the length, and so on. In each pass a place is compared
    with the one that differs from it in one binary digit.
    """
    size = len(columns[0])
    runs = [2**i for i in range(run.bit_length(), size.bit_length())]
    passes = [(length, 2**i) for length in runs for i in reversed(range(length.bit_length() - 1))]
    if not passes:
        return list(columns)
    schedule = jnp.asarray(np.array(passes, np.int32))
    place = jnp.arange(size, dtype=jnp.int32)

    def compare(i: jax.Array, columns: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        length, apart = schedule[i]
        rises = ((place & length) == 0) == ((place & apart) == 0)
        partner = place ^ apart
        others = [x.at[partner].get(mode="promise_in_bounds") for x in columns]
        keys, against = columns[0], others[0]
        swaps = jnp.where(rises[:, None], keys > against, keys < against)
        return tuple(jnp.where(swaps, *pair) for pair in zip(others, columns, strict=True))

    return list(jax.lax.fori_loop(0, len(passes), compare, tuple(columns)))
