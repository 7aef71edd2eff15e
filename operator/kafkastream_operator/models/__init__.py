"""The custom resources as pydantic models, from which the CRDs of the chart and `docs/crds.md` are generated. Pure."""
