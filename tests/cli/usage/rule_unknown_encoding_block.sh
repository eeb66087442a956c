encodings q plan x --rule 'ffn=int9:block=64'
