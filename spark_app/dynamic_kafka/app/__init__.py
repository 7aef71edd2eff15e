"""The bundled application: a YAML in, a running, reporting, stoppable Spark job out."""
