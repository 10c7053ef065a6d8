"""The store in PostgreSQL with pgvector: any number of machines over one database."""
