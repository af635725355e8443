#!/usr/bin/env python3
"""Checks that two Python clients from PyPI work against a running `homeostat up`, unmodified: the official
`kubernetes` client (typed, custom objects, dynamic, watches) and Kopf (handlers, finalizer, owned objects, events).

    pip install -r scripts/requirements.txt
    python scripts/python_clients.py --kubeconfig .homeostat/kubeconfig

Prints a line for everything checked. Ends with 0 when all held, with 1 and the reason when not. Every wait has a limit.
"""
import argparse
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

import kubernetes
from kubernetes import client, dynamic, watch

GROUP, VERSION, PLURAL, KIND = "check.homeostat.dev", "v1", "widgets", "Widget"
CRD_NAME = f"{PLURAL}.{GROUP}"
FINALIZER = "kopf.zalando.org/KopfFinalizerMarker"
# The longest wait for a condition. A machine of two busy cores needs one or two seconds for the slowest.
PATIENCE_S = 60
OPERATOR = pathlib.Path(__file__).with_name("kopf_operator.py")


class Failed(Exception):
    """A check that did not hold."""


def check(what, holds, got=None):
    if not holds:
        raise Failed(f"{what}: got {got!r}")
    print(f"  ok  {what}")


def eventually(what, probe):
    """Waits until `probe` gives something true and returns it. A missing object counts as not yet."""
    deadline = time.monotonic() + PATIENCE_S
    last = None
    while time.monotonic() < deadline:
        try:
            last = probe()
        except client.ApiException as error:
            if error.status != 404:
                raise
            last = "404"
        else:
            if last:
                print(f"  ok  {what}")
                return last
        time.sleep(0.05)
    raise Failed(f"{what}: not within {PATIENCE_S} s, last seen {last!r}")


def refused(what, status, call):
    try:
        answer = call()
    except client.ApiException as error:
        check(f"{what}: {status}", error.status == status, error.status)
    else:
        raise Failed(f"{what}: expected {status}, got {answer!r}")


def crd():
    size = {"type": "integer", "minimum": 1}
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "required": ["size"], "properties": {"size": size}},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
    }
    names = {"plural": PLURAL, "singular": "widget", "kind": KIND, "listKind": f"{KIND}List"}
    spec = {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]}
    metadata = {"name": CRD_NAME}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": spec,
    }


def widget(name, size):
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": KIND,
        "metadata": {"name": name},
        "spec": {"size": size},
    }


class Widgets:
    """The custom objects of one namespace."""

    def __init__(self, namespace):
        self.api = client.CustomObjectsApi()
        self.where = (GROUP, VERSION, namespace, PLURAL)

    def create(self, body):
        return self.api.create_namespaced_custom_object(*self.where, body)

    def get(self, name):
        return self.api.get_namespaced_custom_object(*self.where, name)

    def patch(self, name, body):
        return self.api.patch_namespaced_custom_object(*self.where, name, body)

    def patch_status(self, name, body):
        return self.api.patch_namespaced_custom_object_status(*self.where, name, body)

    def delete(self, name):
        return self.api.delete_namespaced_custom_object(*self.where, name)

    def list(self):
        return self.api.list_namespaced_custom_object(*self.where)


class Recorder(threading.Thread):
    """Follows the widgets of a namespace in the background until told to stop."""

    def __init__(self, widgets, resource_version):
        super().__init__(daemon=True)
        self.widgets, self.resource_version = widgets, resource_version
        self.watch, self.events, self.error = watch.Watch(), [], None
        self.start()

    def run(self):
        listing = self.widgets.api.list_namespaced_custom_object
        try:
            for event in self.watch.stream(
                listing, *self.widgets.where, resource_version=self.resource_version, timeout_seconds=PATIENCE_S
            ):
                self.events.append((event["type"], event["object"]["metadata"]["name"]))
        except Exception as error:  # reported by whoever waits for the events
            self.error = error

    def wait_for(self, expected):
        eventually(f"watch saw {expected}", lambda: self.error or self.events == expected)
        if self.error:
            raise Failed(f"the watch broke: {self.error!r}")
        self.watch.stop()


def is_established(name):
    conditions = client.ApiextensionsV1Api().read_custom_resource_definition(name).status.conditions or []
    return any(condition.type == "Established" and condition.status == "True" for condition in conditions)


@contextlib.contextmanager
def definition():
    """The CRD, established; gone with all its objects at the end."""
    api = client.ApiextensionsV1Api()
    api.create_custom_resource_definition(crd())
    try:
        eventually("the CRD is established", lambda: is_established(CRD_NAME))
        yield
    finally:
        release_all()
        api.delete_custom_resource_definition(CRD_NAME)


def release_all():
    """Takes finalizers off what a failed run left behind: nobody is there any more to do it."""
    for item in client.CustomObjectsApi().list_cluster_custom_object(GROUP, VERSION, PLURAL)["items"]:
        if item["metadata"].get("finalizers"):
            widgets = Widgets(item["metadata"]["namespace"])
            widgets.patch(item["metadata"]["name"], {"metadata": {"finalizers": None}})


@contextlib.contextmanager
def namespace(prefix):
    """A namespace with a generated name; deleted with all it holds at the end."""
    api = client.CoreV1Api()
    name = api.create_namespace({"metadata": {"generateName": prefix}}).metadata.name
    try:
        yield name
    finally:
        api.delete_namespace(name)


def check_core(name):
    print("kubernetes: typed objects")
    api = client.CoreV1Api()
    check("version is v1.36", client.VersionApi().get_code().minor.startswith("36"))
    body = {"metadata": {"name": "a", "labels": {"app": "check"}}, "data": {"k": "1"}}
    created = api.create_namespaced_config_map(name, body)
    check("create sets uid and resourceVersion", created.metadata.uid and created.metadata.resource_version)
    refused("create twice", 409, lambda: api.create_namespaced_config_map(name, body))
    found = api.list_namespaced_config_map(name, label_selector="app=check").items
    check("list by label finds it", [item.metadata.name for item in found] == ["a"], found)
    created.data = {"k": "2"}
    api.replace_namespaced_config_map("a", name, created)
    refused("replace with an old resourceVersion", 409, lambda: api.replace_namespaced_config_map("a", name, created))
    patched = api.patch_namespaced_config_map("a", name, {"data": {"k": None, "l": "3"}})
    check("patch merges", patched.data == {"l": "3"}, patched.data)
    api.delete_namespaced_config_map("a", name)
    refused("read after delete", 404, lambda: api.read_namespaced_config_map("a", name))


def check_custom(name):
    print("kubernetes: custom objects")
    widgets = Widgets(name)
    recorder = Recorder(widgets, widgets.list()["metadata"]["resourceVersion"])
    created = widgets.create(widget("one", 1))
    check("generation starts at 1", created["metadata"]["generation"] == 1, created["metadata"])
    refused("a wrong type", 422, lambda: widgets.create(widget("bad", "large")))
    changed = widgets.patch("one", {"spec": {"size": 2}})
    check("a change of spec raises the generation", changed["metadata"]["generation"] == 2, changed["metadata"])
    reported = widgets.patch_status("one", {"status": {"ready": True}, "spec": {"size": 9}})
    check("a patch of status writes status", reported["status"] == {"ready": True}, reported)
    check("a patch of status leaves spec alone", reported["spec"] == {"size": 2}, reported)
    check("a patch of status keeps the generation", reported["metadata"]["generation"] == 2, reported["metadata"])
    widgets.delete("one")
    refused("get after delete", 404, lambda: widgets.get("one"))
    recorder.wait_for([("ADDED", "one"), ("MODIFIED", "one"), ("MODIFIED", "one"), ("DELETED", "one")])


def check_dynamic(name):
    print("kubernetes: dynamic client")
    api = dynamic.DynamicClient(client.ApiClient())
    resource = api.resources.get(api_version=f"{GROUP}/{VERSION}", kind=KIND)
    applied = resource.server_side_apply(
        body=widget("applied", 3), name="applied", namespace=name, field_manager="check"
    )
    check("server-side apply creates", applied.spec.size == 3, applied.to_dict())
    managers = [entry.manager for entry in applied.metadata.managedFields]
    check("the field manager is recorded", managers == ["check"], managers)
    resource.delete(name="applied", namespace=name)


@contextlib.contextmanager
def kopf_operator(kubeconfig, name):
    """`kopf run` as a process of its own; its output is shown when a check fails."""
    environment = dict(os.environ, KUBECONFIG=str(kubeconfig))
    command = [sys.executable, "-m", "kopf", "run", "--standalone", "--namespace", name, str(OPERATOR)]
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            yield process
            check("kopf runs to the end", process.poll() is None, process.returncode)
        except BaseException:
            log.seek(0)
            print(log.read())
            raise
        finally:
            process.terminate()
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()


def check_kopf(kubeconfig, name):
    print("kopf: create, update and delete handlers, finalizer, owned objects")
    widgets, core = Widgets(name), client.CoreV1Api()
    widgets.create(widget("before", 5))
    with kopf_operator(kubeconfig, name):
        child = eventually(
            "an object from before the start is handled", lambda: core.read_namespaced_config_map("before-child", name)
        )
        check("the child is owned", child.metadata.owner_references[0].name == "before", child.metadata)
        widgets.create(widget("live", 1))
        eventually("the create handler's result is in the status", lambda: status(widgets, "live").get("created"))
        check("kopf set its finalizer", FINALIZER in widgets.get("live")["metadata"]["finalizers"])
        widgets.patch("live", {"spec": {"size": 7}})
        eventually(
            "the update handler saw old and new", lambda: status(widgets, "live").get("resized") == {"from": 1, "to": 7}
        )
        check("the child followed", core.read_namespaced_config_map("live-child", name).data == {"size": "7"})
        eventually("kopf's event is there", lambda: core.list_namespaced_event(name, field_selector="reason=Built").items)
        widgets.delete("live")
        eventually("the delete handler ran", lambda: core.read_namespaced_config_map("live-obituary", name))
        eventually("the object is gone after the finalizer", lambda: is_gone(lambda: widgets.get("live")))
        eventually("its child is gone, too", lambda: is_gone(lambda: core.read_namespaced_config_map("live-child", name)))
        widgets.delete("before")
        eventually("the other object is gone", lambda: is_gone(lambda: widgets.get("before")))


def status(widgets, name):
    return widgets.get(name).get("status", {})


def is_gone(read):
    try:
        read()
    except client.ApiException as error:
        return error.status == 404
    return False


def check_definition_deleted(name):
    print("kubernetes: the CRD goes with its objects")
    eventually("the CRD is gone", lambda: is_gone(lambda: client.ApiextensionsV1Api().read_custom_resource_definition(CRD_NAME)))
    eventually("its resource is gone", lambda: is_gone(Widgets(name).list))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kubeconfig", type=pathlib.Path, required=True)
    kubeconfig = parser.parse_args().kubeconfig.resolve()
    kubernetes.config.load_kube_config(str(kubeconfig))
    try:
        with namespace("python-") as name:
            with definition():
                check_core(name)
                check_custom(name)
                check_dynamic(name)
                check_kopf(kubeconfig, name)
                Widgets(name).create(widget("left", 1))
            check_definition_deleted(name)
        eventually("the namespace is gone", lambda: is_gone(lambda: client.CoreV1Api().read_namespace(name)))
    except Failed as failure:
        print(f"FAILED  {failure}")
        return 1
    print("python clients: all good")
    return 0


if __name__ == "__main__":
    sys.exit(main())
