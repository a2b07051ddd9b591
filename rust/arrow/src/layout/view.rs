//! Values as views into the fetched bytes.
