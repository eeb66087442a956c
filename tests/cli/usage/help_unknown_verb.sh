q help dif
