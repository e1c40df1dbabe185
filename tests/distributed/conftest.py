"""A cluster on this machine: a head without cores, to which a test adds nodes, and takes them away."""

import socket
from contextlib import suppress
from functools import partial

import pytest

_PORTS = (
    "metrics_agent_port",
    "metrics_export_port",
    "dashboard_agent_listen_port",
    "runtime_env_agent_port",
)
_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",  # or a busy machine would never come to them
    "RAY_raylet_start_wait_time_s": "40",
    "OMP_NUM_THREADS": "1",
}


@pytest.fixture(scope="session")
def head(_own_cache):
    """Such a cluster; ends every process that it started."""
    pytest.importorskip("ray", reason="ray is not installed (the extra ray)")
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        for name, value in _SETTINGS.items():
            patch.setenv(name, value)
        cluster = started(lambda: Cluster(initialize_head=True, head_node_args=node_settings(cores=0)))
        yield cluster
        cluster.shutdown()


@pytest.fixture
def lose_node(head):
    """A function that ends all processes of a node at once."""
    return partial(lose, head)


@pytest.fixture
def add_node(head):
    """A function that adds a node of one core; those that a test leaves are removed after it."""
    import ray
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as many cores does each job need
    yield lambda: started(lambda: head.add_node(**node_settings()))
    torch.set_num_threads(threads)
    ray.shutdown()
    for node in list(head.worker_nodes):
        lose(head, node)


def lose(head, node):
    node.kill_all_processes(check_alive=False, allow_graceful=False, wait=True)
    head.worker_nodes.discard(node)


def started(start, tries=4):
    # Ray gives a node's helpers 15 seconds to start, which a busy machine may exceed.
    for _ in range(tries - 1):
        with suppress(Exception):
            return start()
    return start()


def node_settings(cores=1):
    # Without ports of their own, nodes wait for their helpers to choose some.
    sockets = [socket.create_server(("", 0)) for _ in _PORTS]
    ports = {name: free.getsockname()[1] for name, free in zip(_PORTS, sockets, strict=True)}
    for free in sockets:
        free.close()
    return {"num_cpus": cores, "object_store_memory": 80 << 20, "include_dashboard": False, **ports}
