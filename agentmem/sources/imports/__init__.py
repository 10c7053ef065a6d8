"""Read the exports of other memory systems."""
