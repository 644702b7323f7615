//! Which member of a pool answers a call. Pools are of agents that do the same; a call that goes on with a task or a
//! conversation goes where that is, and a new one where a selector says.
//!
//! ```
//! use std::sync::Arc;
//! use chancery_control::Millis;
//! use chancery_control::routing::{Peer, Pool, PoolSettings, RoundRobin, Wanted};
//! use chancery_protocol::Principal;
//!
//! let settings = PoolSettings { selector: Arc::new(RoundRobin::default()), ..PoolSettings::default() };
//! let pool = Pool::try_new("summarise", [Peer::new("north"), Peer::new("south")], settings)?;
//!
//! let caller = Principal::anonymous();
//! let route = pool.route(&Wanted::by(&caller), Millis(0)).expect("both can be called");
//! let ticket = route.ticket.expect("a peer, and not this process");
//! assert_eq!(&**ticket.peer(), "north");
//! // Whoever makes the call tells how it goes, and the pool learns from it.
//! ticket.succeeded(Millis(120));
//! # Ok::<(), chancery_control::routing::DuplicatePeer>(())
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `pool` | the members, and how one is found for a call |
//! | `selector` | who chooses, of those that can be called |
//! | `reach` | whether an agent can be reached that is no pool |
//! | `peer` | what a member declares, and how it looks at a moment |
//! | `member` | what is learnt about a member |
//! | `ticket` | one call to a member, from which that is learnt |
//! | `breaker` | when a member is out, and how it comes back |
//! | `sticky` | where tasks and conversations are |
//! | `watch` | how whoever calls the members tells of it |
//! | `decision` | what was decided and why, or refused |

mod breaker;
mod decision;
mod member;
mod peer;
mod pool;
mod reach;
mod selector;
mod sticky;
mod ticket;
mod watch;

pub use breaker::{BreakerSettings, Standing};
pub use decision::{
    AGENT_UNREACHABLE, Decision, GATE, NO_PEER_AVAILABLE, NO_PEER_FITS, PEER_UNAVAILABLE, TASK_PEER_GONE,
    TOO_MANY_OPEN_TASKS, Why,
};
pub use member::Remeasuring;
pub use peer::{Peer, Snapshot};
pub use pool::{DuplicatePeer, Fallback, Pool, PoolSettings, Route};
pub use reach::Reach;
pub use selector::{
    CapabilityMatch, Chained, CheapestUnderLatency, Choice, LowestLatency, PeerSelector, PowerOfTwoChoices,
    RoundRobin, SelectorSettings, Selectors, UnknownSelector, Wanted,
};
pub use sticky::{Binding, StickySettings};
pub use ticket::Ticket;
pub use watch::Watched;
