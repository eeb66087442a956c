q diff x y --tolerance nan
