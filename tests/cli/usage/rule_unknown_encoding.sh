encodings q plan x --rule 'ffn=int9'
