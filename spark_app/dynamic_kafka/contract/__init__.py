"""The contract of operator and driver: names in Kubernetes, driver report, exit codes, termination message. Pure."""
