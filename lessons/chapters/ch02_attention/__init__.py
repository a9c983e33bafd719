"""Chapter 2: self-attention on four tokens."""
