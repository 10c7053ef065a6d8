"""Find: the question, candidates, ranking, the retriever."""
