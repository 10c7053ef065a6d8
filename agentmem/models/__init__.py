"""The model that is asked: a name or a callable made one, or the extractive one."""
