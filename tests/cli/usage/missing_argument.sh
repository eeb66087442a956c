q plan x --encoding
