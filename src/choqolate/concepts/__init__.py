"""From images to concept scores: images, encoders, cached embeddings, vocabularies, and tables of scores."""
