"""What things cost: encodings, messages, media, models."""
