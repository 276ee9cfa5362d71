"""What every service shares; each folder's first lines say what lives there and what does not."""
