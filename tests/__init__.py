"""A package of this name is what `tests.deep` means, whatever other packages install as `tests`."""
