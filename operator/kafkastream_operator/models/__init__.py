"""The custom resources as pydantic models, the origin of the CRDs and of `docs/reference/crds.md`. Pure."""
