//! Values copied into one contiguous buffer.
