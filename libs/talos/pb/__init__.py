"""Generated from `proto/` by `python -m libs.talos.generate`; never edited by hand."""
