//! `chancery serve` as a process, with agents of every kind that it runs itself.

mod command;
mod endpoint;
mod gateway;
mod inbox;
mod model;
