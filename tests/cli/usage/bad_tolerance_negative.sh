q diff x y --tolerance -0.5
