# Help of quantize, from the tables.
encodings q quantize --help
