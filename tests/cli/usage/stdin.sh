q plan -
