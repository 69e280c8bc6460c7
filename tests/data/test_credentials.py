"""Credentials are found in addresses, and left out of texts."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.credentials import hidden, in_address
from data.places import without_credentials

SECRET = "s3cret-value-of-a-key"


@pytest.mark.parametrize(
    "address",
    [
        f"s3://me:{SECRET}@bucket/a",
        f"simplecache::https://{SECRET}@host/a.json",
        f"zip://a.json::s3://me:{SECRET}/+@bucket/a.zip",
        f"https://me:{SECRET}@s@host",
        f"ftp://me::{SECRET}@host",
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
        "s3://bucket/a:1@b.json",
        "http://bucket:8080/a@b.json",
        "http://[fd00::1]:8080/a@b.json",
        "zip://a.json::https://host/a@b.zip",
        "https://host/a?x=y:z@b",
        "file:///data/a:b@c.json",
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
    result = hidden(text, environment)
    message = "key <WANDB_API_KEY> at https://...@host/a?sig=...&n=2 and ftp://...@host, x, /root"
    assert result == message


#: Passwords as keys of stores are: with all that base64 and an address have.
PASSWORDS = st.text("abyzABYZ019/+=@:%~.-_!*", min_size=8).filter(
    lambda own: "://" not in own and not re.match(r"\d{1,5}/", own)
)


@given(password=PASSWORDS, user=st.sampled_from(["", "me", "AKIA7"]), after=st.sampled_from("/?# "))
def test_a_password_may_hold_what_an_address_may_not(password: str, user: str, after: str) -> None:
    address = f"s3://{user}:{password}@bucket{after}runs"
    assert in_address(address)
    for text in (address, f"cannot copy to '{address}': away"):
        assert password not in hidden(text, {})
        assert "@bucket" in hidden(text, {})


@given(path=st.text("ab1/@.-=", max_size=12), port=st.integers(1, 65535))
def test_an_at_in_a_path_is_no_login(path: str, port: int) -> None:
    for address in (f"s3://bucket/{path}", f"http://host:{port}/{path}"):
        assert not in_address(address)
        assert hidden(address, {}) == address
