"""The demo site runs in a process of its own and never outlives whoever needs it."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from example.site.process import SiteError, SiteProcess

PROJECT = Path(__file__).parents[2] / "example_project"


def _answers(port):
    with socket.socket() as connection:
        connection.settimeout(5)
        return connection.connect_ex(("127.0.0.1", port)) == 0


def _wait_until_silent(port):
    deadline = time.monotonic() + 10
    while _answers(port):
        assert time.monotonic() < deadline, "the site still answers"
        time.sleep(0.05)


def test_the_site_answers_many_requests_on_one_connection_until_it_is_stopped():
    site = SiteProcess(port=0, edition=1)
    address = urlsplit(site.url)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=5)
    for target, status in (("/", 200), ("/shop/tools?page=2", 200), ("/wall", 302), ("/missing", 404)):
        connection.request("GET", target)
        response = connection.getresponse()
        assert (response.status, response.read() != b"" or status == 302) == (status, True)
    connection.close()
    site.stop()
    _wait_until_silent(address.port)


def test_the_site_ends_when_its_owner_is_killed():
    program = (
        "import time; from example.site.process import SiteProcess;"
        "print(SiteProcess(0, 1).url, flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=PROJECT, stdout=subprocess.PIPE, text=True
    ) as owner:
        port = urlsplit(owner.stdout.readline().strip()).port
        assert _answers(port)
        os.kill(owner.pid, signal.SIGKILL)
    _wait_until_silent(port)


def test_a_taken_port_is_an_error_that_says_what_to_do():
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        with pytest.raises(SiteError, match=rf"(?s)port {port} .*-a port="):
            SiteProcess(port=port, edition=1)
