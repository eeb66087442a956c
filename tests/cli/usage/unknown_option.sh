q plan x --encodng nf4
