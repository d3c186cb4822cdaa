"""A catalog entry from a model's Hugging Face config.json: shapes to weights, KV cache and arithmetic."""
