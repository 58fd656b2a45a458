"""Side-by-side measurements, as ratios within one run: machines differ, and are noisy."""
