"""Films from pictures: an animated GIF, or an MP4 through ffmpeg."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from edrl.core.check import fail

FORMATS = (".gif", ".mp4")
_OURS = "a film by edrl"  # a comment in the file, by which it is known for one of ours


def check_film(path: Path) -> None:
    """Fail early, before anything is played, if such a film cannot be written."""
    if path.suffix.lower() not in FORMATS:
        raise fail("video", str(path), f"its name must end in {' or '.join(FORMATS)}")
    if path.suffix.lower() == ".mp4":
        _ffmpeg()
    if not path.absolute().parent.is_dir():
        raise fail("video", str(path), "there is no such directory")
    if path.exists() and not _is_ours(path):
        raise fail("video", str(path), "there is a file that is not one of ours: name another one")


def _is_ours(path: Path) -> bool:
    """Whether it is a film that may be replaced."""
    return path.is_file() and _OURS.encode() in path.read_bytes()


def write_film(path: Path, pictures: Sequence[np.ndarray], seconds: float) -> None:
    """Write pictures [height, width, 3] of bytes, each shown for so many seconds."""
    if path.suffix.lower() == ".gif":
        first, *rest = [Image.fromarray(one).quantize(64) for one in pictures]
        first.save(
            path, save_all=True, append_images=rest, duration=round(1000 * seconds), loop=0,
            comment=_OURS.encode(),
        )  # fmt: skip
        return
    # What players expect of H.264 halves the colours' resolution: both lengths must be even.
    height, width = (length // 2 * 2 for length in pictures[0].shape[:2])
    raw = [
        "-f",
        "rawvideo",
        "-pix_fmt",
        "rgb24",
        "-s",
        f"{width}x{height}",
        "-r",
        f"{1 / seconds:g}",
        "-i",
        "-",
    ]
    named = ["-metadata", f"comment={_OURS}"]
    subprocess.run(
        [_ffmpeg(), "-y", "-loglevel", "error", *raw, "-pix_fmt", "yuv420p", *named, str(path)],
        input=b"".join(one[:height, :width].tobytes() for one in pictures),
        check=True,
    )


def has_ffmpeg() -> bool:
    """Whether an MP4 can be written."""
    try:
        _ffmpeg()
    except ImportError:
        return False
    return True


def _ffmpeg() -> str:
    """The program: the system's, or the one that comes with the extra."""
    found = shutil.which("ffmpeg")
    if found is not None:
        return found
    try:
        import imageio_ffmpeg
    except ImportError as error:
        raise ImportError(
            "there is no ffmpeg: pip install 'edrl[video]', or ask for a .gif"
        ) from error
    return str(imageio_ffmpeg.get_ffmpeg_exe())
