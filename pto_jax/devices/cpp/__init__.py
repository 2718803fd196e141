"""Programs as C++ intrinsics, as the manual writes them."""
