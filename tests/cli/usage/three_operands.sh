q diff x y z
