"""What needs torch is skipped where it is not installed."""

import pytest


@pytest.fixture(scope="session")
def gpt():
    """A GPT that torch's trackers have seen."""
    pytest.importorskip("torch", reason="torch is not installed")
    import profiles

    return profiles.profile(profiles.GPT, 4, 32)
