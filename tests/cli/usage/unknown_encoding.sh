encodings q plan x -e nf5
