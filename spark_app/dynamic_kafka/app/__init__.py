"""The bundled application: it runs the streaming queries that an `app.yaml` describes, and its tools check them."""
