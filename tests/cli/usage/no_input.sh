q plan
