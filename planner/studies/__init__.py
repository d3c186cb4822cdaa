"""Plans made again to learn something about a plan: what each lever saves, and from which volume on hosting pays."""
