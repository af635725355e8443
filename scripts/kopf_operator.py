"""A Kopf operator for `widgets.check.homeostat.dev`, started by python_clients.py with `kopf run`.

Each handler leaves a trace that can be seen through the API: an owned ConfigMap, a result in the status, and, for the
deletion, a ConfigMap that outlives the object. It is written as Kopf's tutorial writes them, with nothing special for
Homeostat.
"""
import kopf
import kubernetes


def core():
    kubernetes.config.load_kube_config()
    return kubernetes.client.CoreV1Api()


def write(namespace, name, data, owner=None):
    body = {"metadata": {"name": name}, "data": data}
    if owner is not None:
        kopf.adopt(body, owner=owner)
    try:
        core().create_namespaced_config_map(namespace, body)
    except kubernetes.client.ApiException as error:
        if error.status != 409:
            raise
        core().patch_namespaced_config_map(name, namespace, {"data": data})


@kopf.on.create("check.homeostat.dev", "v1", "widgets")
def created(spec, name, namespace, body, **_):
    write(namespace, f"{name}-child", {"size": str(spec["size"])}, owner=body)
    kopf.info(body, reason="Built", message=f"built a child of size {spec['size']}")
    return {"size": spec["size"]}


@kopf.on.update("check.homeostat.dev", "v1", "widgets")
def resized(old, spec, name, namespace, **_):
    write(namespace, f"{name}-child", {"size": str(spec["size"])})
    return {"from": old["spec"]["size"], "to": spec["size"]}


@kopf.on.delete("check.homeostat.dev", "v1", "widgets")
def deleted(name, namespace, **_):
    write(namespace, f"{name}-obituary", {"deleted": "yes"})
