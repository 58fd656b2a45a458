"""How flags are read that tyro would read in another way than settings are."""

from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

FLAGS = ConstructorRegistry()
"""What `tyro.cli` takes as `registry`, in every command."""


@FLAGS.primitive_rule
def _whole_numbers(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[int] | None:
    """1e6 is a whole number, as it is in `--set steps=1e6`."""
    if info.type is not int:
        return None
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="INT",
        instance_from_str=lambda words: whole_number(words[0]),
        is_instance=lambda value: isinstance(value, int),
        str_from_instance=lambda number: [str(number)],
    )


def whole_number(text: str) -> int:
    """The whole number that a word spells: 1000000, 1_000_000 or 1e6."""
    try:
        return int(text)
    except ValueError:
        pass  # digits alone are read above, as floats would lose some
    try:
        number = float(text)
    except ValueError:
        number = 0.5
    if not number.is_integer():
        raise ValueError(f"it must be a whole number, such as 1000 or 1e6, got {text!r}")
    return int(number)
