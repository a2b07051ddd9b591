//! Every request and response, one file an API.
