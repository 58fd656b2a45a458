"""The deep wing: one agent for any statistics, on Atari, MinAtar and Gymnasium, in float32."""
