//! Who may do what: one table, as docs/threat-model.md has it. Nothing in it was learnt from the gateway.

/// Somebody who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Who {
    /// Whose the tasks are; in the group.
    Owner,
    /// Another caller of the same realm.
    Other,
    /// A caller of another realm, by the name of the owner.
    OtherRealm,
    /// Another caller of the same realm, in the group of the owner.
    GroupMember,
    /// An agent that works on a call of the owner's, with what it was given for that.
    Turn,
    /// The owner, with a key that was taken back.
    Revoked,
    /// Somebody who says nothing, where nobody is let in who does.
    Anonymous,
    /// The same where the operator lets everybody in.
    Guest,
    /// An agent elsewhere without a key, with the lineage of a call of the owner's, where the operator lets everybody in.
    Bearer,
    /// The same where nobody is let in without a key.
    Stray,
    /// Another caller, who has got hold of that lineage.
    Thief,
    /// One of another realm.
    ThiefElsewhere,
    /// An agent that comes for its tasks, with its key.
    Worker,
    /// An agent of the same name in another realm.
    WorkerElsewhere,
    /// An agent for members alone that comes for its tasks, with its key.
    HiddenWorker,
    /// Who has the token of the admin listener.
    Operator,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Thing {
    /// What the whole world may read: cards, keys, schemas, probes.
    Public,
    /// The card of the fleet, which names to everybody whom they may see.
    FleetCard,
    /// What every caller may ask: whom and what it may see, which of its own tasks there are.
    OwnView,
    /// A new message to an agent that is for all.
    Message,
    /// The card of an agent for its reader.
    ExtendedCard,
    /// A task of the owner's.
    OwnersTask,
    /// Where notifications about such a task go.
    OwnersReceivers,
    /// A task that the agent began for the call that it works on.
    TurnsTask,
    /// Where notifications about such a task would go.
    TurnsReceivers,
    /// A new message to an agent that a policy has for the group.
    GroupsAgent,
    /// The same asked of the fleet, by the skill: for others nobody has it.
    GroupsSkill,
    /// How such an agent is.
    GroupsHealth,
    /// An agent that is for members alone: messages to it, and what it shows.
    HiddenAgent,
    /// A task that it does not have.
    HiddenTask,
    /// What is asked of it that goes beyond a call.
    HiddenRest,
    /// The inbox of such an agent.
    HiddenInbox,
    /// A task that is not in it.
    HiddenInboxTask,
    /// The inbox of an agent that everybody may see.
    Inbox,
    /// A task in the inbox.
    InboxTask,
    /// What is switched off.
    SwitchedOff,
    /// What the operator looks after the gateway by.
    Operation,
}

impl Thing {
    /// Whether it is an agent's that is for members alone.
    pub(crate) fn is_hidden(self) -> bool {
        matches!(
            self,
            Self::HiddenAgent
                | Self::HiddenTask
                | Self::HiddenRest
                | Self::HiddenInbox
                | Self::HiddenInboxTask
        )
    }
}

/// What is to come of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    /// It is done.
    Done,
    /// It is not there: word for word what is answered about something that is nowhere, and that is not found.
    Missing,
    /// The same where what is nowhere is refused in other words than that it is not found.
    Alike,
    /// It is not found. That there is such an agent is no secret: its card is public.
    NotFound,
    /// Who it is is known, and may not.
    Forbidden,
    /// Who it is is not known.
    Unknown,
    /// It is done by nobody.
    Refused,
    /// Who it is is known, and may; what is asked about need not be there.
    LetIn,
}

use Expect::{Alike, Done, Forbidden, LetIn, Missing, NotFound, Refused, Unknown};

/// The columns: owner, other caller, other realm, group member, agent's turn, revoked key, anonymous.
#[rustfmt::skip]
const CALLERS: [(Thing, [Expect; 7]); 21] = [
    (Thing::Public,           [Done,    Done,      Done,      Done,      Done,      Done,    Done]),
    (Thing::FleetCard,        [Done,    Done,      Done,      Done,      Done,      Unknown, Done]),
    (Thing::OwnView,          [Done,    Done,      Done,      Done,      Done,      Unknown, Unknown]),
    (Thing::Message,          [Done,    Done,      Done,      Done,      Done,      Unknown, Unknown]),
    (Thing::ExtendedCard,     [Done,    Done,      Done,      Done,      Forbidden, Unknown, Unknown]),
    (Thing::OwnersTask,       [Done,    Missing,   Missing,   Missing,   Missing,   Unknown, Unknown]),
    (Thing::OwnersReceivers,  [Done,    Missing,   Missing,   Missing,   Forbidden, Unknown, Unknown]),
    (Thing::TurnsTask,        [Missing, Missing,   Missing,   Missing,   Done,      Unknown, Unknown]),
    (Thing::TurnsReceivers,   [Missing, Missing,   Missing,   Missing,   Forbidden, Unknown, Unknown]),
    (Thing::GroupsAgent,      [Done,    Forbidden, Forbidden, Done,      Done,      Unknown, Unknown]),
    (Thing::GroupsSkill,      [Done,    Alike,     Alike,     Done,      Done,      Unknown, Unknown]),
    (Thing::GroupsHealth,     [Done,    NotFound,  NotFound,  Done,      Done,      Unknown, Unknown]),
    (Thing::HiddenAgent,      [Alike,   Alike,     Alike,     Alike,     Done,      Alike,   Alike]),
    (Thing::HiddenTask,       [Alike,   Alike,     Alike,     Alike,     Missing,   Alike,   Alike]),
    (Thing::HiddenRest,       [Alike,   Alike,     Alike,     Alike,     Forbidden, Alike,   Alike]),
    (Thing::HiddenInbox,      [Alike,   Alike,     Alike,     Alike,     Forbidden, Alike,   Alike]),
    (Thing::HiddenInboxTask,  [Alike,   Alike,     Alike,     Alike,     Forbidden, Alike,   Alike]),
    (Thing::Inbox,            [Forbidden, Forbidden, Forbidden, Forbidden, Forbidden, Unknown, Unknown]),
    (Thing::InboxTask,        [Forbidden, Forbidden, Forbidden, Forbidden, Forbidden, Unknown, Unknown]),
    (Thing::SwitchedOff,      [Refused; 7]),
    (Thing::Operation,        [Unknown; 7]),
];

/// What is different for those who come for their tasks, for thieves, and for the operator.
const OTHERS: [(Thing, Who, Expect); 15] = [
    (Thing::Inbox, Who::Worker, Done),
    (Thing::Inbox, Who::WorkerElsewhere, Done),
    (Thing::InboxTask, Who::Worker, Done),
    (Thing::InboxTask, Who::WorkerElsewhere, Alike),
    (Thing::HiddenInbox, Who::HiddenWorker, Done),
    (Thing::HiddenInboxTask, Who::HiddenWorker, Refused),
    (Thing::HiddenAgent, Who::HiddenWorker, Alike),
    // A message on whose behalf something is wrong goes nowhere; all else is asked as though that had not been shown.
    (Thing::Message, Who::Thief, Refused),
    (Thing::Message, Who::ThiefElsewhere, Refused),
    (Thing::OwnersTask, Who::Thief, Alike),
    (Thing::OwnersTask, Who::ThiefElsewhere, Alike),
    (Thing::TurnsTask, Who::Thief, Alike),
    (Thing::TurnsTask, Who::ThiefElsewhere, Alike),
    (Thing::Public, Who::Operator, Done),
    (Thing::Operation, Who::Operator, LetIn),
];

/// What is to come of it when somebody asks for something.
pub(crate) fn expected(thing: Thing, who: Who) -> Expect {
    if let Some((.., expect)) = OTHERS.iter().find(|(known, other, _)| (*known, *other) == (thing, who)) {
        return *expect;
    }
    let column = match who {
        Who::Owner => 0,
        // Whoever is let in without a name is one more caller.
        Who::Other | Who::Guest | Who::Thief => 1,
        Who::OtherRealm | Who::ThiefElsewhere => 2,
        Who::GroupMember => 3,
        Who::Turn | Who::Bearer => 4,
        Who::Revoked => 5,
        Who::Anonymous | Who::Stray => 6,
        other => panic!("nothing is said about {thing:?} for {other:?}"),
    };
    CALLERS
        .iter()
        .find(|(known, _)| *known == thing)
        .map(|(_, row)| row[column])
        .expect("each thing has a row")
}
