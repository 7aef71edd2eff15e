"""The two kinds of SparkApplication, Kubeflow's and Apache's: how each is read and patched. Pure."""
