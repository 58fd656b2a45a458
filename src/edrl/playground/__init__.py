"""The playground: one HTML page with toys on return distributions, which needs no network."""
