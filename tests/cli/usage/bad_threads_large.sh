q plan x --threads 257
