"""Keep in order: preferences, facts, contradictions, consolidation, prediction, tiers."""
