q verify $DATA/bad/escape
