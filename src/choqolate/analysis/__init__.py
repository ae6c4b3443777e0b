"""What takes a model and a table: fit, evaluate, suspects."""
