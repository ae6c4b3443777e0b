"""Two layers of Choquet integrals: trained, fitted, edited."""
