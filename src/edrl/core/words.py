"""How messages and pages put things: numbers with their nouns, and descriptions of values."""


class Described(str):
    """A description in the place of a value, such as "float64 of shape ()": it has no quotation
    marks around it.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def count(number: int, one: str, many: str = "") -> str:
    """A number with its noun: 3 runs, 1 run."""
    return f"{number:,} {form(number, one, many or f'{one}s')}"


def form(number: int, one: str, many: str) -> str:
    """The word that goes with a number: 1 run has, 3 runs have."""
    return one if number == 1 else many
