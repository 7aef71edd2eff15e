"""The custom resources, as pydantic models: the source of `crds/*.yaml`. Pure."""
