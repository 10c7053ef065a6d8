"""Each adapter with the real package; a file is skipped where its package is missing."""
