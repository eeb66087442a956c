mkdir empty
q plan empty
