q frobnicate
