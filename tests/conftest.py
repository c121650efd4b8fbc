"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

# How long an example takes says something of the machine, which may be busy, and nothing of the code.
settings.register_profile("lab", deadline=None)
settings.load_profile("lab")
