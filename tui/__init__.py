"""Everything a person sees: the commands, their output and the curves."""
