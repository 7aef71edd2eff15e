"""The application's configuration file, `app.yaml`."""
