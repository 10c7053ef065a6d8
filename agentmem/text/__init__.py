"""Read text: sentences, chunks, Markdown, terms, dates, secrets. Pure."""
