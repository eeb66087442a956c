# Help of dequantize, from the tables.
q dequantize --help
