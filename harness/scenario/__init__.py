"""The files that users write: scenarios, paths, manifests and parameters, as types that are validated when read."""
