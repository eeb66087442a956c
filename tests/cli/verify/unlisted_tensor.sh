q verify $DATA/bad/unlisted_tensor
