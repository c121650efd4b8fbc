"""What you write: scenarios, paths, manifests and parameters, as types that are checked where they are read."""
