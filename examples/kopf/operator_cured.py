"""The same operator without the bug: the name is derived from the Page, so that a second attempt finds the first.

It writes no status, because Kopf writes the note that a change was handled and the status in two requests: a crash in
between loses the status for good. `homeostat sim run` found that in an earlier version of this file.

    kopf run --standalone --all-namespaces operator_cured.py
"""
import kopf
from kubernetes import config
# Imported by name: the package loads it only when it is used, which takes seconds that the first handler would wait.
from kubernetes.client import ApiException, CoreV1Api

# Kopf waits a minute after an exception by default; a simulation need not.
BACKOFF_S = 0.5


def core():
    config.load_kube_config()
    return CoreV1Api()


@kopf.on.create("demo.homeostat.dev", "v1", "pages", backoff=BACKOFF_S)
@kopf.on.update("demo.homeostat.dev", "v1", "pages", backoff=BACKOFF_S)
def publish(spec, name, namespace, body, **_):
    config_map = {"metadata": {"name": f"{name}-page"}, "data": {"text": spec["text"]}}
    kopf.adopt(config_map, owner=body)
    try:
        core().create_namespaced_config_map(namespace, config_map)
    except ApiException as error:
        if error.status != 409:
            raise
        core().patch_namespaced_config_map(f"{name}-page", namespace, config_map)
