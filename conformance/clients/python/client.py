"""The Python client's dynamic client, watch, leader election, exec, log and port-forward.

Arguments: a namespace with a Ready pod `server`. $KUBECONFIG names the cluster. The last line is `ok`.
"""

import http.client
import sys
import threading
import uuid

from kubernetes import client, config, dynamic, stream, watch
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock.configmaplock import ConfigMapLock

namespace = sys.argv[1]
config.load_kube_config()
core = client.CoreV1Api()


def dynamically():
    """Kinds by discovery, server-side apply, conflicts, a custom resource that is watched."""
    found = dynamic.DynamicClient(client.ApiClient())
    maps = found.resources.get(api_version="v1", kind="ConfigMap")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "dynamic"}, "data": {"k": "1"}}
    maps.server_side_apply(body=body, namespace=namespace, field_manager="one")
    body["data"]["k"] = "2"
    try:
        maps.server_side_apply(body=body, namespace=namespace, field_manager="two")
        raise AssertionError("a conflict passed")
    except dynamic.exceptions.ConflictError as error:
        assert 'conflict with \\"one\\"' in error.body.decode(), error.body
    forced = maps.server_side_apply(body=body, namespace=namespace, field_manager="two", force_conflicts=True)
    assert forced.data.k == "2", forced

    greetings = found.resources.get(api_version="clients.example.test/v1", kind="Greeting")
    listed = greetings.get(namespace=namespace)
    assert listed.items == [], listed
    greeting = {"apiVersion": greetings.group_version, "kind": "Greeting", "metadata": {"name": "hello"}}
    greetings.create(body={**greeting, "spec": {"text": "hello"}}, namespace=namespace)
    merge = "application/merge-patch+json"
    greetings.patch(name="hello", body={"spec": {"text": "bye"}}, namespace=namespace, content_type=merge)
    greetings.status.patch(name="hello", body={"status": {"said": 1}}, namespace=namespace, content_type=merge)
    greetings.delete(name="hello", namespace=namespace)
    seen, watcher = [], watch.Watch()
    since = listed.metadata.resourceVersion
    for event in greetings.watch(namespace=namespace, resource_version=since, timeout=20, watcher=watcher):
        seen.append((event["type"], event["object"].spec.text))
        if event["type"] == "DELETED":
            watcher.stop()
    expected = [("ADDED", "hello"), ("MODIFIED", "bye"), ("MODIFIED", "bye"), ("DELETED", "bye")]
    assert seen == expected, seen
    assert found.resources.search(kind="Pod", api_version="v1"), "discovery"


def elects():
    """Two candidates for one lock: the second leads only when the first has let its lease run out."""

    def candidate(name):
        settings = electionconfig.Config(
            ConfigMapLock("leader", namespace, name),
            lease_duration=3,
            renew_deadline=2,
            retry_period=1,
            onstarted_leading=lambda: None,
            onstopped_leading=None,
        )
        return leaderelection.LeaderElection(settings)

    one, two = candidate(f"one-{uuid.uuid4()}"), candidate(f"two-{uuid.uuid4()}")
    assert one.try_acquire_or_renew(), "the first leads"
    assert one.try_acquire_or_renew(), "and renews"
    assert not two.try_acquire_or_renew(), "the second does not"
    pause = threading.Event()
    for _ in range(100):
        if two.try_acquire_or_renew():
            break
        pause.wait(0.1)
    assert not one.try_acquire_or_renew(), "the first has lost it"


def streams():
    command = ["/testbed", "echo", "from", "python"]
    arguments = dict(name="server", namespace=namespace, stdout=True, stderr=True)
    said = stream.stream(core.connect_get_namespaced_pod_exec, command=command, **arguments)
    assert said == "from python\n", said
    shell = stream.stream(
        core.connect_get_namespaced_pod_exec, command=["/testbed", "exit", "5"], _preload_content=False, **arguments
    )
    shell.run_forever(timeout=20)
    assert shell.returncode == 5, shell.returncode
    forward = stream.portforward(core.connect_get_namespaced_pod_portforward, "server", namespace, ports="8080")
    connection = http.client.HTTPConnection("pod", 8080)
    connection.sock = forward.socket(8080)
    connection.request("GET", "/hostname")
    assert connection.getresponse().read().strip() == b"server"
    lines = watch.Watch().stream(core.read_namespaced_pod_log, name="server", namespace=namespace, follow=True)
    assert next(lines) == "serving on port 8080"


def typed():
    """What the generated classes make of answers: lists in pages, patches, errors."""
    for number in range(3):
        name = client.V1ObjectMeta(name=f"page-{number}", labels={"page": "yes"})
        core.create_namespaced_config_map(namespace, client.V1ConfigMap(metadata=name))
    names, token = [], None
    while token != "":
        page = core.list_namespaced_config_map(namespace, label_selector="page", limit=2, _continue=token)
        names += [item.metadata.name for item in page.items]
        token = page.metadata._continue or ""
    assert names == ["page-0", "page-1", "page-2"], names
    core.delete_collection_namespaced_config_map(namespace, label_selector="page")
    assert core.list_namespaced_config_map(namespace, label_selector="page").items == []
    try:
        core.read_namespaced_config_map("page-0", namespace)
        raise AssertionError("deleted, but still there")
    except client.ApiException as error:
        assert error.status == 404 and error.reason == "Not Found", error


for part in (dynamically, elects, streams, typed):
    part()
    print(part.__name__)
print("ok")
