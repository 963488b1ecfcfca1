"""What the tests share: the models, and TorchRec where it is installed."""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))  # cases.py, ranks.py
if "PYTHONPATH" in os.environ:  # programs that tests start run elsewhere
    paths = os.environ["PYTHONPATH"].split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join(os.path.abspath(path) for path in paths)
