q diff x
