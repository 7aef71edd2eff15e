"""The custom resources as pydantic models, from which `crds/*.yaml` and `docs/crds.md` are generated. Pure."""
