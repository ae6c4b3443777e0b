"""The studio: audit a model in the browser, take concepts out, see who is affected, keep the history."""
