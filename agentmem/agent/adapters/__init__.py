"""The wrapped calls and clients, a file each."""
