"""HAR files with secrets in every part, for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SECRETS = (
    "sessionid-7f31",
    "Bearer-eyJhbGci",
    "q-private-42",
    "body-of-the-form",
    "secret-header",
    "alice@mail.test",
    "private-path",
    "hidden.internal.test",
    "title-of-the-page",
    "fragment-99",
    "10.9.8.7",
    "comment-text",
)
"""Texts that must not occur in any output."""


def entry(url: str, start: int, **more: Any) -> dict[str, Any]:
    """An entry with secrets in every part."""
    timings = {"blocked": 1, "dns": -1, "connect": -1, "ssl": -1, "send": 1, "wait": 50, "receive": 10}
    return {
        "pageref": "page_1",
        "startedDateTime": f"2026-01-01T00:00:00.{start:03}Z",
        "time": 62,
        "serverIPAddress": "10.9.8.7",
        "comment": "comment-text",
        "request": {
            "method": "GET",
            "url": url,
            "httpVersion": "h2",
            "cookies": [{"name": "id", "value": "sessionid-7f31"}],
            "headers": [
                {"name": "X-Token", "value": "Bearer-eyJhbGci"},
                {"name": "X", "value": "secret-header"},
            ],
            "queryString": [{"name": "q", "value": "q-private-42"}],
            "postData": {"mimeType": "text/plain", "text": "body-of-the-form"},
            "headersSize": -1,
            "bodySize": 0,
        },
        "response": {
            "status": 200,
            "statusText": "OK",
            "httpVersion": "h2",
            "cookies": [{"name": "id", "value": "sessionid-7f31"}],
            "headers": [{"name": "Set-Cookie", "value": "sessionid-7f31"}],
            "content": {"size": 5000, "mimeType": "text/html", "text": "body-of-the-form alice@mail.test"},
            "redirectURL": "",
            "headersSize": -1,
            "bodySize": -1,
            "_transferSize": 4000,
        },
        "cache": {},
        "timings": {**timings, **more.pop("timings", {})},
        **more,
    }


ROOT_URL = "https://alice@hidden.internal.test/private-path?token=q-private-42#fragment-99"


def har(*entries: dict[str, Any], **page: Any) -> dict[str, Any]:
    about = {"startedDateTime": "2026-01-01T00:00:00.000Z", "id": "page_1", "title": "title-of-the-page"}
    pages = [{**about, "pageTimings": {"onLoad": 900}, **page}]
    return {
        "log": {
            "version": "1.2",
            "creator": {"name": "x", "version": "1"},
            "pages": pages,
            "entries": [*entries],
        }
    }


def document(**more: Any) -> dict[str, Any]:
    connection = {"timings": {"dns": 5, "connect": 100, "ssl": 60}, "_connectionId": "7"}
    return entry(ROOT_URL, 0, _resourceType="document", _priority="VeryHigh", **{**connection, **more})


def written(folder: Path, table: Any) -> Path:
    path = folder / "page.har"
    path.write_text(table if isinstance(table, str) else json.dumps(table), encoding="utf-8")
    return path


def child(url: str, start: int, **more: Any) -> dict[str, Any]:
    return entry("https://hidden.internal.test/" + url, start, _connectionId="7", **more)
