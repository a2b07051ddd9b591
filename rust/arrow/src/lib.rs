//! Record batches to Arrow arrays and back, without row objects.

pub mod decode;
pub mod encode;
pub mod layout;
pub mod schema;
