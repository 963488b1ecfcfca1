"""These tests need torch."""

import pathlib
import sys

import pytest

pytest.importorskip("torch", reason="torch is not installed")
sys.path.insert(0, str(pathlib.Path(__file__).parent))  # small_models.py
