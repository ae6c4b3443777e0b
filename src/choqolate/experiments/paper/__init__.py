"""The paper's numbers, and one short declaration per table or figure."""
