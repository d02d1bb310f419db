"""From images to symbols: detect interest points, describe them, quantize the descriptors."""
