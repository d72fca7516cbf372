"""The parts of the command line; `nesht.cli` puts them together. Thin: everything happens in the package."""
