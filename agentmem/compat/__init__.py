"""Speak another project's interface: one file a framework, imported only when it is wanted."""
