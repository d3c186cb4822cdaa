"""Facts with source and date: GPUs, offers, models, API prices, and the schema of profiles."""
