q help diff x
