"""Shrinking an image by area interpolation: a new pixel is the mean of the area that it covers."""

import numpy as np


class AreaResize:
    """Shrinks uint8 images `[height, width]` to `[size, size]`, to the bit as OpenCV's INTER_AREA
    does.

    Sums are taken in float32, along rows first and from left to right, then down: where a mean lies
    halfway between two grey levels the order decides which one it becomes.
    """

    def __init__(self, height: int, width: int, size: int) -> None:
        self._columns, self._column_shares = _covered(width, size)
        self._rows, row_shares = _covered(height, size)
        self._row_shares = row_shares[..., None]

    def __call__(self, image: np.ndarray) -> np.ndarray:
        pixels = image.astype(np.float32)
        narrow = pixels[:, self._columns[0]] * self._column_shares[0]
        for columns, shares in zip(self._columns[1:], self._column_shares[1:], strict=True):
            narrow += pixels[:, columns] * shares
        small = narrow[self._rows[0]] * self._row_shares[0]
        for rows, shares in zip(self._rows[1:], self._row_shares[1:], strict=True):
            small += narrow[rows] * shares
        return np.asarray(np.rint(small, out=small).astype(np.uint8))


def _covered(pixels: int, cells: int) -> tuple[np.ndarray, np.ndarray]:
    """The pixels that each of `cells` equal parts of a line covers, and their shares of it, both
    [tap, cell].

    In units in which a pixel is `cells` long and a cell `pixels`, all overlaps are whole numbers.
    Cells that cover fewer pixels than others have shares of 0.
    """
    left = np.arange(cells) * pixels
    index = left // cells + np.arange(-(-pixels // cells) + 1)[:, None]
    overlap = np.minimum((index + 1) * cells, left + pixels) - np.maximum(index * cells, left)
    needed = (overlap > 0).any(1)
    index, overlap = index[needed], overlap[needed]
    return np.minimum(index, pixels - 1), (np.maximum(overlap, 0) / pixels).astype(np.float32)
