"""The scikit-learn faces: what estimators share, the classifier, runs side by side, save and load."""
