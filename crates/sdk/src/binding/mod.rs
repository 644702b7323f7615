//! Bindings: how a call looks as bytes. They lift what a request says into a [`Call`] and decide nothing.
//!
//! [`Call`]: chancery_protocol::Call

pub(crate) mod grpc;
pub(crate) mod head;
pub(crate) mod jsonrpc;
pub(crate) mod rest;
pub(crate) mod sse;
