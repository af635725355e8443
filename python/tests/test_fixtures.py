"""Checks the installed wheel: `pip install WHEEL pytest && pytest python/tests`."""
import json
import pathlib
import re
import ssl
import subprocess
import urllib.request

import pytest

import homeostat as control_plane


def get(server, path):
    """Asks the server with the token of its kubeconfig, and trusts what the kubeconfig says."""
    import base64

    text = server.kubeconfig.read_text()
    authority = re.search(r"certificate-authority-data: *\"?([A-Za-z0-9+/=]+)", text).group(1)
    token = re.search(r"token: *\"?([^\s\"]+)", text).group(1)
    context = ssl.create_default_context(cadata=base64.b64decode(authority).decode())
    request = urllib.request.Request(server.url + path, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, context=context) as answer:
        return json.load(answer)


def test_a_server_answers(homeostat):
    assert homeostat.url.startswith("https://127.0.0.1:")
    names = [item["metadata"]["name"] for item in get(homeostat, "/api/v1/namespaces")["items"]]
    assert "default" in names


def test_each_test_has_its_own_and_the_session_one(homeostat, homeostat_session):
    assert homeostat.url != homeostat_session.url
    assert get(homeostat_session, "/version")["major"] == "1"


def test_nothing_is_left_behind():
    with control_plane.start() as server:
        folder = server.kubeconfig.parent
        assert folder.is_dir()
    assert not folder.exists()


def test_a_server_that_cannot_start_says_why():
    with pytest.raises(control_plane.StartError, match="nonsense"):
        control_plane.start("--nonsense")


def test_the_program_is_a_command():
    assert control_plane.program().is_file()
    said = subprocess.run(["homeostat", "--version"], capture_output=True, text=True, check=True)
    assert said.stdout.startswith("homeostat "), pathlib.Path.cwd()
