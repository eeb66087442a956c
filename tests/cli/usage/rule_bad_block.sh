q plan x --rule 'ffn=nf4:block=65'
