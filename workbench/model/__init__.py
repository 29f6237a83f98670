"""The transformer: components, each beside its own frozen spec, and the blocks that wire them."""
