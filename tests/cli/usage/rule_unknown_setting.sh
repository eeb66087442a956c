q plan x --rule 'ffn=nf4:size=64'
