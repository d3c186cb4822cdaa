"""A user's own measurements of a deployment, which come before anything that physics predicts."""
