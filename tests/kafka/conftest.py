pytest_plugins = ["support.fixtures"]
