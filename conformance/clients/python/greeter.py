"""An operator on kopf: a Greeting owns a ConfigMap with its text, and leaves another one when it goes."""

import kopf
import kubernetes

KIND = ("clients.example.test", "v1", "greetings")


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_):
    kubernetes.config.load_kube_config()
    settings.persistence.finalizer = "clients.example.test/greeter"
    settings.watching.server_timeout = 60


def config_map(name, text):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": text}}


@kopf.on.create(*KIND)
def create(spec, name, namespace, **_):
    child = config_map(name, spec["text"])
    kopf.adopt(child)
    kubernetes.client.CoreV1Api().create_namespaced_config_map(namespace, child)
    return {"child": name}


@kopf.on.update(*KIND, field="spec.text")
def update(old, new, name, namespace, **_):
    kubernetes.client.CoreV1Api().patch_namespaced_config_map(name, namespace, {"data": {"text": new}})
    return {"from": old, "to": new}


@kopf.timer(*KIND, interval=0.2)
def tick(status, patch, **_):
    if status.get("ticks", 0) < 3:
        patch.status["ticks"] = status.get("ticks", 0) + 1


@kopf.on.delete(*KIND)
def delete(spec, name, namespace, **_):
    farewell = config_map(f"farewell-{name}", spec["text"])
    kubernetes.client.CoreV1Api().create_namespaced_config_map(namespace, farewell)
