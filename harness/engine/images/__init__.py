"""Images: building, exchanging and inspecting them, and their root file systems."""
