"""Memory that keeps itself in order: consolidation, contradictions, learning, merging, cold."""
