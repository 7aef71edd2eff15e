"""What is particular to each SparkApplication: Kubeflow's and Apache's. Pure."""
