"""Credentials are found in addresses, and left out of texts."""

from __future__ import annotations

import pytest

from data.credentials import hidden, in_address
from data.places import without_credentials

SECRET = "s3cret-value-of-a-key"


@pytest.mark.parametrize(
    "address",
    [
        f"s3://me:{SECRET}@bucket/a",
        f"simplecache::https://{SECRET}@host/a.json",
        f"https://account.blob.core.windows.net/c/a.json?sv=2024-01-01&sp=r&sig={SECRET}",
        f"https://b.s3.amazonaws.com/a?X-Amz-Expires=9&X-Amz-Signature={SECRET}",
        f"https://b.s3.amazonaws.com/a?X-Amz-Security-Token={SECRET}&X-Amz-Date=1",
        f"https://storage.googleapis.com/b/a?Expires=1&Signature={SECRET}",
        f"https://host/a?token={SECRET}",
        f"https://host/a?api_key={SECRET}#x",
        f"https://host/a?apikey={SECRET}",
    ],
)
def test_addresses_with_credentials_are_refused_and_hidden(address: str) -> None:
    assert in_address(address)
    with pytest.raises(ValueError, match="credentials stand in the address") as refused:
        without_credentials(address)
    assert SECRET not in str(refused.value)
    assert SECRET not in hidden(f"cannot read {address!r}: away", {})


@pytest.mark.parametrize(
    "address",
    [
        "s3://bucket/a@b.json",
        "gs://bucket/tokens/key=1/a.json",
        "abfs://container@account.dfs.core.windows.net/a",
        "sftp://user@host/a",
        "https://host/a.json?tokens=512&design=1&keyword=cat&versionId=3",
        "/data/a.json",
    ],
)
def test_other_addresses_are_taken(address: str) -> None:
    assert without_credentials(address) == address


def test_credentials_are_left_out_of_messages() -> None:
    environment = {"WANDB_API_KEY": SECRET, "HOME": "/root", "MLFLOW_TRACKING_PASSWORD": "x"}
    text = f"key {SECRET} at https://user:{SECRET}@host/a?sig=1a&n=2 and ftp://user@host, x, /root"
    found = hidden(text, environment)
    told = "key <WANDB_API_KEY> at https://...@host/a?sig=...&n=2 and ftp://...@host, x, /root"
    assert found == told
