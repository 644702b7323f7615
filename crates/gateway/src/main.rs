//! The `chancery` binary: the command line, in a runtime.

mod cli;
mod config;
mod demo;
mod gateway;
mod govern;
mod identity;
mod rehearsal;

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// A server allocates on every thread all the time, and frees elsewhere; the one of glibc makes that dear.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    cli::run().await
}
