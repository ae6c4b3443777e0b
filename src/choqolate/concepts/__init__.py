"""From pictures to concept scores: pictures, encoders, cached embeddings, vocabularies, and tables of scores."""
