"""Keeps as many pods as a ConfigMap says, and no order of events makes it do harm.

What it does differently from naive.py:
  - Events only wake it. What it decides on it reads from the API at that moment, so there
    is nothing to be remembered and nothing to be missed.
  - Pods have names made of (owner's UID, slot). A create that is repeated because its answer
    was lost, or that another instance has made too, meets 409.
  - A delete names the UID of the pod that is meant.
  - It looks again after a while though nothing has woken it, and no request waits for ever.
"""
import queue
import threading
import time

from kubernetes import client, config, watch
from kubernetes.client.rest import ApiException

NAMESPACE = "default"
LABEL = "rehearse.example/replicas"
RESYNC = 2  # seconds
PATIENCE = 5  # seconds
wake = queue.Queue()


def follow(api, **where):
    while True:
        try:
            for _ in watch.Watch().stream(api, NAMESPACE, **where):
                wake.put(None)
        except Exception as problem:
            print("the watch has ended, it begins anew:", problem, flush=True)
            time.sleep(0.1)
        wake.put(None)  # for what happened meanwhile


def reconcile(core, config_map, pods):
    want = int(config_map.data["replicas"])
    mine = {p.metadata.name: p for p in pods if controller_of(p) == config_map.metadata.uid}
    names = [f"{config_map.metadata.name}-{config_map.metadata.uid[:8]}-{slot}" for slot in range(want)]
    for name in names:
        if name not in mine:
            unless(409, core.create_namespaced_pod, NAMESPACE, pod_of(config_map, name))
    for name, pod in mine.items():
        if name not in names and not pod.metadata.deletion_timestamp:
            this = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid=pod.metadata.uid))
            unless(404, core.delete_namespaced_pod, name, NAMESPACE, body=this)


def unless(status, call, *args, **kwargs):
    """A request whose purpose is served already is no failure."""
    try:
        call(*args, **kwargs, _request_timeout=PATIENCE)
    except ApiException as refused:
        if refused.status != status:
            raise


def controller_of(pod):
    return next((o.uid for o in pod.metadata.owner_references or [] if o.controller), None)


def pod_of(config_map, name):
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": config_map.metadata.name, "uid": config_map.metadata.uid, "controller": True}
    return {
        "metadata": {"name": name, "ownerReferences": [owner]},
        "spec": {"containers": [{"name": "web", "image": "web"}]},
    }


def main():
    config.load_kube_config()
    core = client.CoreV1Api()
    threading.Thread(target=follow, args=(core.list_namespaced_pod,), daemon=True).start()
    threading.Thread(target=follow, args=(core.list_namespaced_config_map,), kwargs={"label_selector": LABEL}, daemon=True).start()
    while True:
        try:
            wake.get(timeout=RESYNC)
            while True:  # one look is enough for all that has come
                wake.get_nowait()
        except queue.Empty:
            pass
        try:
            sets = core.list_namespaced_config_map(NAMESPACE, label_selector=LABEL, _request_timeout=PATIENCE).items
            pods = core.list_namespaced_pod(NAMESPACE, _request_timeout=PATIENCE).items
            for config_map in sets:
                reconcile(core, config_map, pods)
        except Exception as problem:
            print("to be tried again:", problem, flush=True)
            time.sleep(0.2)
            wake.put(None)


main()
