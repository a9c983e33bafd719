"""The model package: MiniGPT and its baselines, training, sampling, and runs on disk."""
