"""A Kopf operator that publishes each Page as a ConfigMap, with a bug: read README.md before you look for it.

    kopf run --standalone --all-namespaces operator_broken.py
"""
import kopf
from kubernetes import config
# Imported by name: the package loads it only when it is used, which takes seconds that the first handler would wait.
from kubernetes.client import CoreV1Api

# Kopf waits a minute after an exception by default; a simulation need not.
BACKOFF_S = 0.5


def core():
    config.load_kube_config()
    return CoreV1Api()


@kopf.on.create("demo.homeostat.dev", "v1", "pages", backoff=BACKOFF_S)
def publish(spec, name, namespace, body, patch, **_):
    # The server chooses the name, and the status remembers it. If the answer is lost in between, nobody knows that the
    # ConfigMap is there: the next attempt makes another one.
    config_map = {"metadata": {"generateName": f"{name}-"}, "data": {"text": spec["text"]}}
    kopf.adopt(config_map, owner=body)
    created = core().create_namespaced_config_map(namespace, config_map)
    patch.status["configMap"] = created.metadata.name


@kopf.on.update("demo.homeostat.dev", "v1", "pages", backoff=BACKOFF_S)
def republish(spec, status, namespace, **_):
    core().patch_namespaced_config_map(status["configMap"], namespace, {"data": {"text": spec["text"]}})
