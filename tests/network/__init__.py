"""A package, so that its fixtures are torn down after its tests."""
