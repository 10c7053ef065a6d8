"""One file a model that turns text into vectors."""
