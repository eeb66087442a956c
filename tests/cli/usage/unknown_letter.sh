q plan x -x
