"""The commands, one file a group. Each parses, calls what computes, and prints."""
