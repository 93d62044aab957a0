"""Keeps as many pods as a ConfigMap says, written the naive way, to be found out.

It remembers what events have told it and never asks again. When a watch has expired and
begins anew, the API tells what exists, and not what was deleted meanwhile: the dictionary
below keeps a pod that is gone, and no new one is ever made. That is how many an operator in
a scripting language is written.
"""
import queue
import threading
import time

from kubernetes import client, config, watch

NAMESPACE = "default"
LABEL = "rehearse.example/replicas"
wake = queue.Queue()
pods = {}  # by name: all that have been seen and have not been seen to go


def follow(api, seen, **where):
    while True:
        try:
            for event in watch.Watch().stream(api, NAMESPACE, **where):
                seen(event["type"], event["object"])
        except Exception as problem:
            print("the watch has ended, it begins anew:", problem, flush=True)
            time.sleep(0.1)


def set_seen(kind, config_map):
    if kind != "DELETED":
        wake.put(config_map)


def pod_seen(kind, pod):
    if kind == "DELETED":
        pods.pop(pod.metadata.name, None)
    else:
        pods[pod.metadata.name] = pod


def reconcile(core, config_map):
    want = int(config_map.data["replicas"])
    mine = [p for p in list(pods.values()) if controller_of(p) == config_map.metadata.uid and not p.metadata.deletion_timestamp]
    for _ in range(want - len(mine)):
        pod = core.create_namespaced_pod(NAMESPACE, pod_of(config_map))
        pods[pod.metadata.name] = pod  # its event may be late
    for pod in mine[want:]:
        core.delete_namespaced_pod(pod.metadata.name, NAMESPACE)


def controller_of(pod):
    return next((o.uid for o in pod.metadata.owner_references or [] if o.controller), None)


def pod_of(config_map):
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": config_map.metadata.name, "uid": config_map.metadata.uid, "controller": True}
    return {
        "metadata": {"generateName": config_map.metadata.name + "-", "ownerReferences": [owner]},
        "spec": {"containers": [{"name": "web", "image": "web"}]},
    }


def main():
    config.load_kube_config()
    core = client.CoreV1Api()
    sets = {}
    threading.Thread(target=follow, args=(core.list_namespaced_pod, pod_seen), daemon=True).start()
    threading.Thread(target=follow, args=(core.list_namespaced_config_map, set_seen), kwargs={"label_selector": LABEL}, daemon=True).start()
    while True:
        try:
            config_map = wake.get(timeout=0.2)
            sets[config_map.metadata.uid] = config_map
        except queue.Empty:
            pass
        for config_map in sets.values():
            try:
                reconcile(core, config_map)
            except Exception as problem:
                print("to be tried again:", problem, flush=True)


main()
