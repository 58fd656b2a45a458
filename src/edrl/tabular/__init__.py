"""The tabular wing: finite MDPs, the paper's problems, dynamic programming and learning, all in float64."""
