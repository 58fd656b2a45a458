"""Deep agents that train side by side, each in a process of its own: ours, and those of other
projects.
"""
