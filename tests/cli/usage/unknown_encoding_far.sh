q plan x -e gguf
