"""Recorded pages: reads HAR files, and replays their pages over HTTP/1.1, HTTP/2 and HTTP/3."""

from aqmlab.pages.dependencies import read_har
from aqmlab.pages.har_json import HarError
from aqmlab.pages.page import Page, PageObject, Times

__all__ = ["HarError", "Page", "PageObject", "Times", "read_har"]
