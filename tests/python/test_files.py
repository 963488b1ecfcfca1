"""Files of the objects that are written whole: what is wrong with one is said, with its place."""

import pytest

from plimsoll import Error, checkpointing, graphs

PLAN = '{"schema": "plimsoll.checkpointing_plan/1"'


@pytest.mark.parametrize("load", [checkpointing.Plan.load, checkpointing.Stats.load, graphs.load])
@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (None, "not_found", "No such file"),
        ("{", "syntax", "is not JSON"),
        ("[]", "schema", "is not an object"),
        ("{}", "schema", "plimsoll"),
    ],
)
def test_files_that_are_none_are_told(load, text, code, words, tmp_path):
    path = tmp_path / "it.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(Error, match=words) as caught:
        load(path)
    assert caught.value.code == code and caught.value.place.startswith(str(path)) and caught.value.remedy


@pytest.mark.parametrize("rest", ["}", ', "units": [{"fqn": "a"}]}', ', "units": 3}', ', "units": [], "more": 1}'])
def test_a_plan_that_lacks_its_keys_is_told(rest, tmp_path):
    (tmp_path / "plan.json").write_text(PLAN + rest)
    with pytest.raises(Error, match=r"does not hold what a plimsoll\.checkpointing_plan/1 does") as caught:
        checkpointing.Plan.load(tmp_path / "plan.json")
    assert caught.value.code == "schema"
