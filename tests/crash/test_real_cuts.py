"""The power fails, on a real ext4: what was acknowledged as durable is there afterwards, in order, once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flightlog import FlushMode
from flightlog.store.errors import CorruptLogError
from flightlog.tests.support import cut_campaign, mounts

if TYPE_CHECKING:
    from flightlog.tests.conftest import Scale

SEED = int(os.environ["FLIGHTLOG_SEED"])


@pytest.fixture
def root() -> None:
    mounts.needs_root()


@pytest.mark.ci
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mode", FlushMode)
def test_power_cuts(mode: FlushMode, root: None, tmp_path: Path, scale: Scale) -> None:
    campaign = cut_campaign.Campaign(tmp_path, mode, SEED)
    campaign.run(scale.pick(ci=36, full=2_500))
    print(campaign.summary())
    # Something of every kind was met; how much depends on how busy the machine is.
    assert campaign.acknowledged > 10 * campaign.cuts
    assert 0 < campaign.same_boots < campaign.cuts
    assert campaign.poisoned > campaign.cuts // 10
    assert campaign.delivered > campaign.cuts // 10
    assert (
        len(campaign.sites) > len(cut_campaign.REACH) * 3 // 4
    )  # few visits of the rarest come in the middle of things


@pytest.mark.ci
@pytest.mark.timeout(600)
def test_an_acknowledgement_before_its_sync_is_found_out(root: None, tmp_path: Path) -> None:
    campaign = cut_campaign.Campaign(tmp_path, FlushMode.SYNC, SEED, lies=True)
    with pytest.raises(
        (AssertionError, CorruptLogError), match="acknowledged messages are lost|the commit log is damaged"
    ):
        campaign.run(40)
