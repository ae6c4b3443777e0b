"""The whole job on data that come with the package: train, read, correct, save."""
