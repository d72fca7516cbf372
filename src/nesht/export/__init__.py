"""A trained policy for programs that know nothing of nesht: only the inputs it reads, normaliser folded in."""

from nesht.export.files import FORMATS, export_policy

__all__ = ["FORMATS", "export_policy"]
