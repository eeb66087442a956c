q plan x -j -1
