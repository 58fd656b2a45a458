"""`edrl playground`: a page with toys on return distributions."""

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

from edrl.playground.page import write


@dataclass(frozen=True)
class Playground:
    """Write a page to play with: seven toys on return distributions.

    The page is one HTML file that needs no network: open it in a browser. Under each toy a button
    shows the Python code that gives the same numbers.

    Examples: `edrl playground`, `edrl playground --out docs/playground.html`.
    """

    out: Path = Path("playground.html")
    """The file that the page is written to."""

    def __call__(self) -> int:
        """Write it, and return the exit status."""
        console = Console()
        try:
            write(self.out)
        except (ValueError, OSError) as error:
            console.print(Text(str(error), style="red"), soft_wrap=True)
            return 2
        console.print(f"The page: {self.out.resolve()}", soft_wrap=True, highlight=False)
        return 0
