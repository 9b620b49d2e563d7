"""The product as a whole."""

PRODUCT_VERSION = "0.1.0"
