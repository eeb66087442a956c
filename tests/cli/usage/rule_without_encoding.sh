q plan x --rule ffn
