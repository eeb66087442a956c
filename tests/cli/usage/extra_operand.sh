q plan x y
