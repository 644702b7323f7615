//! A program in a sandbox: with nothing but what it was given.
//!
//! The gateway starts its own binary as a helper, which shuts itself in, step by step, and then becomes the program or
//! starts it; so whatever is applied is applied before the first instruction of the program, and without a line of unsafe
//! code ([ADR 0030](../../../../docs/adr/0030-command-sandbox.md)).
//!
//! | file | holds |
//! |---|---|
//! | `plan` | what the helper is told, and what it found when it was asked to look around |
//! | `helper` | the helper, outside and inside the namespaces |
//! | `namespaces` | own users, processes, network, host name, messages |
//! | `root` | a file system with nothing but what was listed |
//! | `rules` | Landlock |
//! | `limits` | memory, processes, files |
//! | `facts` | what is really applied, as seen from inside |
//! | `launch` | the gateway's side: starting it, and ending it with all its children |
//! | `preflight` | trying it out before anybody calls |

mod facts;
mod helper;
mod launch;
mod limits;
mod namespaces;
mod plan;
mod preflight;
mod root;
mod rules;

pub(crate) use helper::help;
pub(crate) use launch::{Running, launch};
pub(crate) use plan::{Limits, Plan};
pub(crate) use preflight::preflight;
