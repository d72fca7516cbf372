"""The `fused` engine: whole episodes inside one thread of a compiled kernel, on CPU or CUDA."""
