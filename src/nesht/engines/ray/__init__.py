"""The `ray` engine: any of the other engines, in actors all over a Ray cluster."""
