"""The Python client against a Gantry cluster: list, watch, create, patch, exec-free. Argument: a kubeconfig."""

import sys

from kubernetes import client, config, watch

config.load_kube_config(sys.argv[1])
core, apps = client.CoreV1Api(), client.AppsV1Api()
namespace, selector = "python", "from=python"

listed = core.list_namespaced_config_map(namespace, label_selector=selector)
assert listed.items == [] and listed.kind == "ConfigMapList", listed

body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="one", labels={"from": "python"}), data={"n": "1"})
created = core.create_namespaced_config_map(namespace, body)
assert created.metadata.uid and created.metadata.creation_timestamp, created

patched = core.patch_namespaced_config_map("one", namespace, {"data": {"n": "2"}})
assert patched.data == {"n": "2"}, patched
core.delete_namespaced_config_map("one", namespace)

seen = []
stream = watch.Watch()
for event in stream.stream(
    core.list_namespaced_config_map,
    namespace,
    label_selector=selector,
    resource_version=listed.metadata.resource_version,
    timeout_seconds=10,
):
    seen.append(event["type"])
    if event["type"] == "DELETED":
        stream.stop()
assert seen == ["ADDED", "MODIFIED", "DELETED"], seen

labels = {"app": "py"}
container = client.V1Container(name="c", image="docker.io/library/testbed:local", command=["/testbed", "sleep"])
template = client.V1PodTemplateSpec(
    metadata=client.V1ObjectMeta(labels=labels), spec=client.V1PodSpec(containers=[container])
)
spec = client.V1DeploymentSpec(replicas=0, selector=client.V1LabelSelector(match_labels=labels), template=template)
apps.create_namespaced_deployment(namespace, client.V1Deployment(metadata=client.V1ObjectMeta(name="d"), spec=spec))
# Lists of containers merge by name: a strategic merge patch, the client's default.
change = {"spec": {"template": {"spec": {"containers": [{"name": "c", "env": [{"name": "A", "value": "1"}]}]}}}}
found = apps.patch_namespaced_deployment("d", namespace, change).spec.template.spec.containers[0]
assert found.image == "docker.io/library/testbed:local" and found.env[0].value == "1", found

try:
    core.read_namespaced_config_map("one", namespace)
    raise AssertionError("the deleted ConfigMap is still there")
except client.ApiException as error:
    assert error.status == 404 and '"reason":"NotFound"' in error.body.replace(" ", ""), error.body

print("ok")
