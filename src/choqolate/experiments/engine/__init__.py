"""One runner and one results format for all experiments."""
