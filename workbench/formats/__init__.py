"""Files: what is read from disk, and from memory, becomes a spec, named parameters and a tokenizer."""
