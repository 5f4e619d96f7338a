"""The power fails, on a real ext4: what was acknowledged as durable is there afterwards, in order, once."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from flightlog import FlushMode
from flightlog.store.errors import CorruptLogError

if TYPE_CHECKING:
    from tests.conftest import Scale

SEED = int(os.environ["FLIGHTLOG_SEED"])


@pytest.fixture
def campaigns(support: Callable[[str], ModuleType]) -> ModuleType:
    support("mounts").needs_root()
    return support("cut_campaign")


@pytest.mark.ci
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mode", FlushMode)
def test_power_cuts(mode: FlushMode, campaigns: ModuleType, tmp_path: Path, scale: Scale) -> None:
    campaign = campaigns.Campaign(tmp_path, mode, SEED)
    campaign.run(scale.pick(ci=50, full=2_500))
    print(campaign.summary())
    # Something of every kind was met; how much depends on how busy the machine is.
    assert campaign.acknowledged > 10 * campaign.cuts
    assert campaign.poisoned > campaign.cuts // 10
    assert campaign.delivered > campaign.cuts // 10
    assert len(campaign.sites) > len(campaigns.REACH) * 3 // 4  # few visits of the rarest come in the middle of things


@pytest.mark.ci
@pytest.mark.timeout(600)
def test_an_acknowledgement_before_its_sync_is_found_out(campaigns: ModuleType, tmp_path: Path) -> None:
    campaign = campaigns.Campaign(tmp_path, FlushMode.SYNC, SEED, lies=True)
    with pytest.raises(
        (AssertionError, CorruptLogError), match="acknowledged messages are lost|the commit log is damaged"
    ):
        campaign.run(40)
