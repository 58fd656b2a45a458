"""Studies: many deep agents on many games with many seeds, run and reported."""
