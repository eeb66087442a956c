encodings q plan x -e gguf
