import pytest

pytest.importorskip("torchrec", reason="torchrec is not installed")
