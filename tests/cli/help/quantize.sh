# Help of quantize, from the tables.
q quantize --help
