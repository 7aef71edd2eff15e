"""A node that runs pods: containerd, kubelet, kube-proxy, a scheduler and DNS, for the end-to-end tests.

The node lives in namespaces of Linux of its own (`box.py`): its interfaces, rules, mounts and processes end with it, in
whatever way it ends. Only control groups and files can stay, and `Box.clear` removes them. `preflight.py` lists what a
machine lacks.
"""
