q plan x --progress jsn
