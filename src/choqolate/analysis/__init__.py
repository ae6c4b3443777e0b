"""What takes a model and a table: evaluate, suspects, trade-off."""
