//! A program in a sandbox: with nothing but what it was given.
//!
//! The gateway starts its own binary as a helper, which shuts itself in, step by step, and then becomes the program or
//! starts it; so whatever is applied is applied before the first instruction of the program, and without a line of unsafe
//! code ([ADR 0052](../../../../docs/adr/0052-sandbox-that-holds.md)).
//!
//! | file | holds |
//! |---|---|
//! | `plan` | what the helper is told |
//! | `helper` | the helper, outside and inside the namespaces |
//! | `watch` | the helper where there are no namespaces: it ends what the program leaves behind |
//! | `namespaces` | own users, processes, network, host name, messages |
//! | `root` | a file system with nothing but what was listed |
//! | `rules` | Landlock |
//! | `calls` | which system calls may be made |
//! | `limits` | memory, processes, files, of each process |
//! | `cgroup` | memory, processes, processors, of the whole program |
//! | `launch` | the gateway's side: starting it, and ending it with all its children |
//! | `preflight` | trying it out before anybody calls |
//! | `canary`, `probe` | what must not be reached, and who tries to |
//! | `isolation` | what was found, as a card states it |

mod calls;
mod canary;
mod cgroup;
mod helper;
mod isolation;
mod launch;
mod limits;
mod namespaces;
mod plan;
mod preflight;
mod probe;
mod root;
mod rules;
mod watch;

pub(crate) use helper::help;
pub(crate) use isolation::CHECKS;
pub(crate) use launch::{Running, launch};
pub(crate) use plan::{Limits, Plan};
pub(crate) use preflight::{Demand, preflight};
