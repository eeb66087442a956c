for model in model double encoding truncated overlap; do
  plain q verify $DATA/evil/$model.safetensors
done
