"""Both search engines in memory: words (`lexical`), vectors (`vector`), the rows they share."""
