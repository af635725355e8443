"""Fixtures for pytest: a control plane for each test, or one for all.

    def test_my_operator(homeostat):
        kubernetes.config.load_kube_config(str(homeostat.kubeconfig))

Whatever `homeostat up` accepts can be given for a module or a directory:

    @pytest.fixture(scope="session")
    def homeostat_arguments():
        return ["--no-workloads"]
"""
import pytest

import homeostat as control_plane


@pytest.fixture(scope="session")
def homeostat_arguments():
    """Arguments of `homeostat up` for the servers of the other fixtures; none by default."""
    return []


@pytest.fixture
def homeostat(homeostat_arguments):
    """A server of its own for this test, with `.url` and `.kubeconfig`."""
    with control_plane.start(*homeostat_arguments) as server:
        yield server


@pytest.fixture(scope="session")
def homeostat_session(homeostat_arguments):
    """One server for all tests, with `.url` and `.kubeconfig`."""
    with control_plane.start(*homeostat_arguments) as server:
        yield server
