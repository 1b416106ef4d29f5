"""The client: loads each page with a new browser, and writes the events of Chrome's debugging protocol as a
HAR file, in the form in which Chrome's developer tools export HAR files.

python record.py BROWSER FOLDER
"""

from __future__ import annotations

import json
import socket
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

PAGES = {
    "article": "https://www.example/article.html",
    "shop": "http://www.example/shop.html",
    "board": "https://www.example/board.html",
}
LOADS = 5
"""Each page is loaded this number of times. The fastest load is kept, because other programs on the machine
disturbed this load least."""

EVENTS = (
    "requestWillBeSent",
    "requestWillBeSentExtraInfo",
    "responseReceived",
    "dataReceived",
    "loadingFinished",
)


def date(seconds: float) -> str:
    """Returns a time since 1970 in the format of HAR."""
    text = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")
    return text.replace("+00:00", "Z")


def entry(events: dict[str, Any], offset: float) -> dict[str, Any]:
    """Returns the entry of a request. `offset` is the difference between the clock of the events and the
    date."""
    request, answer = events["requestWillBeSent"], events["responseReceived"]["response"]
    end = events["loadingFinished"]
    start, timing = request["timestamp"], answer["timing"]
    requested = timing["requestTime"]

    def known(begin: str, finish: str) -> float:
        return timing[finish] - timing[begin] if timing[begin] >= 0 else -1

    ready = next(timing[name] for name in ("dnsStart", "connectStart", "sendStart") if timing[name] >= 0)
    blocked = 1000 * (requested - start) + ready
    receive = max(0.0, 1000 * (end["timestamp"] - requested) - timing["receiveHeadersEnd"])
    timings = {
        "blocked": blocked,
        "dns": known("dnsStart", "dnsEnd"),
        "connect": known("connectStart", "connectEnd"),
        "ssl": known("sslStart", "sslEnd"),
        "send": timing["sendEnd"] - timing["sendStart"],
        "wait": timing["receiveHeadersEnd"] - timing["sendEnd"],
        "receive": receive,
    }
    timings = {name: round(value, 3) for name, value in timings.items()}
    total = sum(max(0.0, value) for name, value in timings.items() if name != "ssl")
    headers = events.get("requestWillBeSentExtraInfo", {}).get("headers", request["request"]["headers"])
    sent = len(request["request"]["url"]) + sum(len(name) + len(value) + 4 for name, value in headers.items())
    initiator = request["initiator"]
    found = {"type": initiator["type"]}
    if "url" in initiator:
        found |= {"url": initiator["url"], "lineNumber": int(initiator.get("lineNumber", 0))}
    if "stack" in initiator:
        frames = initiator["stack"]["callFrames"] or initiator["stack"].get("parent", {}).get(
            "callFrames", []
        )
        keys = ("functionName", "url", "lineNumber", "columnNumber")
        found["stack"] = {"callFrames": [{key: frame[key] for key in keys} for frame in frames[:1]]}
    body = sum(one["dataLength"] for one in events.get("dataReceived", []))
    return {
        "_connectionId": str(answer["connectionId"]),
        "_initiator": found,
        "_priority": request["request"]["initialPriority"],
        "_resourceType": request["type"].lower(),
        "pageref": "page_1",
        "startedDateTime": date(start + offset),
        "time": round(total, 3),
        "request": {
            "method": request["request"]["method"],
            "url": request["request"]["url"],
            "httpVersion": answer["protocol"],
            "cookies": [],
            "headers": [],
            "queryString": [],
            "headersSize": sent,
            "bodySize": 0,
        },
        "response": {
            "status": answer["status"],
            "statusText": "",
            "httpVersion": answer["protocol"],
            "cookies": [],
            "headers": [],
            "content": {"size": body, "mimeType": answer["mimeType"]},
            "redirectURL": "",
            "headersSize": -1,
            "bodySize": -1,
            "_transferSize": int(end["encodedDataLength"]),
        },
        "cache": {},
        "timings": timings,
    }


def recorded(session: Any, page: Any, url: str) -> dict[str, Any]:
    """Loads a page and returns the HAR."""
    requests: dict[str, dict[str, Any]] = {}

    def note(name: str, event: dict[str, Any]) -> None:
        mine = requests.setdefault(event["requestId"], {})
        if name == "dataReceived":
            mine.setdefault(name, []).append(event)
        else:
            mine[name] = event

    page_times: dict[str, float] = {}
    for name in EVENTS:
        session.on(f"Network.{name}", lambda event, name=name: note(name, event))
    for name in ("domContentEventFired", "loadEventFired"):
        session.on(f"Page.{name}", lambda event, name=name: page_times.setdefault(name, event["timestamp"]))
    session.send("Network.enable", {})
    session.send("Network.setCacheDisabled", {"cacheDisabled": True})
    session.send("Page.enable", {})
    page.goto(url, wait_until="load", timeout=60_000)
    page.wait_for_timeout(1500)
    complete = [
        one
        for one in requests.values()
        if {"requestWillBeSent", "responseReceived", "loadingFinished"} <= one.keys()
    ]
    complete = [one for one in complete if one["responseReceived"]["response"].get("timing")]
    first = complete[0]["requestWillBeSent"]
    offset = first["wallTime"] - first["timestamp"]
    version = page.context.browser.version
    return {
        "log": {
            "version": "1.2",
            "creator": {"name": "aqmlab examples/pages/record.py", "version": "1"},
            "browser": {"name": "Chromium", "version": version},
            "pages": [
                {
                    "startedDateTime": date(first["timestamp"] + offset),
                    "id": "page_1",
                    "title": url,
                    "pageTimings": {
                        "onContentLoad": round(
                            1000 * (page_times["domContentEventFired"] - first["timestamp"]), 3
                        ),
                        "onLoad": round(1000 * (page_times["loadEventFired"] - first["timestamp"]), 3),
                    },
                }
            ],
            "entries": [entry(one, offset) for one in complete],
        }
    }


def main(browser: str, folder: Path) -> None:
    """Records each page with a new browser."""
    address = socket.gethostbyname("server")
    options = [
        "--no-sandbox",
        "--disable-quic",
        "--ignore-certificate-errors",
        "--disable-background-networking",
        f"--host-resolver-rules=MAP *.example {address}",
    ]
    with sync_playwright() as playwright:
        for name, url in PAGES.items():
            loads = []
            for _ in range(LOADS):
                started = playwright.chromium.launch(executable_path=browser, args=options)
                context = started.new_context(ignore_https_errors=True)
                page = context.new_page()
                loads.append(recorded(context.new_cdp_session(page), page, url))
                started.close()
            har = min(loads, key=lambda one: one["log"]["pages"][0]["pageTimings"]["onLoad"])
            lines = json.dumps(har, separators=(",", ":")).replace('{"_connectionId"', '\n{"_connectionId"')
            (folder / f"{name}.har").write_text(lines + "\n", encoding="utf-8")
            print(name, len(har["log"]["entries"]), har["log"]["pages"][0]["pageTimings"], flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
