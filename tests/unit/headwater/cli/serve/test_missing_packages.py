"""`headwater serve` without the packages of its extra."""

from __future__ import annotations

import pytest

from cdc.errors import UsageError
from headwater.cli.serve import command


def test_missing_packages_are_named_with_the_extra_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(command, "find_spec", lambda name: None if name == "uvicorn" else object())
    with pytest.raises(UsageError) as refused:
        command.refuse_missing()
    assert refused.value.message == "headwater serve needs uvicorn, which is not installed"
    assert refused.value.hint == "Install Headwater with its extra: `pip install 'WHEEL[serve]'`."
