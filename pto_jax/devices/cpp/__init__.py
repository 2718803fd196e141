"""Programs as calls of C++ intrinsics, in the form of the vendor's manual."""
