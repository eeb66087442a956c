q quantise in -o out
