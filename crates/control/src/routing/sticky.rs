//! Which peer has a task, and which a conversation: what goes on with one goes to the peer that has it.
//!
//! A task is remembered while it is open and no longer, since nothing can be said to one that has ended. A conversation is
//! remembered while a task of it is open, and afterwards until others have been held more recently.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chancery_protocol::{ContextId, Principal, TaskId};

use super::selector::Wanted;

/// How much a pool remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StickySettings {
    /// Conversations without an open task.
    pub idle_contexts: usize,
    /// Open tasks. They are never forgotten; when there are so many, no new one is let in.
    pub open_tasks: usize,
}

/// An open task, and the peer that has it: what has to be told to a pool after a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Whose task it is.
    pub principal: Principal,
    /// The task.
    pub task: TaskId,
    /// The conversation that it belongs to.
    pub context: Option<ContextId>,
    /// The peer.
    pub peer: Arc<str>,
}

/// By what a call is bound to a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    Task(Arc<str>),
    Context(Arc<str>),
}

#[derive(Debug, Default)]
pub(super) struct Sticky {
    table: Mutex<Table>,
}

/// Ids are only unique for who made the tasks.
type TaskKey = (Principal, TaskId);
type ContextKey = (Principal, ContextId);

#[derive(Debug, Default)]
struct Table {
    tasks: HashMap<TaskKey, (Arc<str>, Option<ContextId>)>,
    contexts: HashMap<ContextKey, Conversation>,
    /// Those without an open task, the one that has been so for longest first.
    idle: BTreeMap<u64, ContextKey>,
    /// Counts the times that a conversation became idle.
    clock: u64,
}

#[derive(Debug)]
struct Conversation {
    peer: Arc<str>,
    open: usize,
    /// Its place among the idle ones, if it is one.
    idle: u64,
}

// === impl StickySettings ===

impl Default for StickySettings {
    fn default() -> Self {
        Self { idle_contexts: 65_536, open_tasks: 1 << 20 }
    }
}

// === impl Sticky ===

impl Sticky {
    pub(super) fn find(&self, wanted: &Wanted<'_>) -> Option<Bound> {
        if wanted.task.is_none() && wanted.context.is_none() {
            return None;
        }
        let table = self.table();
        if let Some(task) = wanted.task
            && let Some((peer, _)) = table.tasks.get(&(wanted.principal.clone(), task.clone()))
        {
            return Some(Bound::Task(peer.clone()));
        }
        let context = wanted.context?;
        let known = table.contexts.get(&(wanted.principal.clone(), context.clone()))?;
        Some(Bound::Context(known.peer.clone()))
    }

    pub(super) fn open_tasks(&self) -> usize {
        self.table().tasks.len()
    }

    /// Remembers a task. One that is known stays where it is.
    pub(super) fn bind(&self, binding: Binding, settings: &StickySettings) {
        let Binding { principal, task, context, peer } = binding;
        let mut table = self.table();
        let key = (principal, task);
        if table.tasks.contains_key(&key) {
            return;
        }
        if let Some(context) = &context {
            table.open((key.0.clone(), context.clone()), &peer);
        }
        table.tasks.insert(key, (peer, context));
        table.forget_oldest(settings.idle_contexts);
    }

    /// A task has ended.
    pub(super) fn release(&self, principal: &Principal, task: &TaskId, settings: &StickySettings) {
        let mut table = self.table();
        let Some((_, context)) = table.tasks.remove(&(principal.clone(), task.clone())) else { return };
        if let Some(context) = context {
            table.close((principal.clone(), context));
            table.forget_oldest(settings.idle_contexts);
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Table ===

impl Table {
    fn open(&mut self, key: ContextKey, peer: &Arc<str>) {
        let Self { contexts, idle, .. } = self;
        let known =
            contexts.entry(key).or_insert_with(|| Conversation { peer: peer.clone(), open: 0, idle: 0 });
        if known.open == 0 {
            idle.remove(&known.idle);
        }
        known.open += 1;
        // If the conversation had another peer, that one is gone, or it would have got this task.
        known.peer = peer.clone();
    }

    fn close(&mut self, key: ContextKey) {
        let Some(known) = self.contexts.get_mut(&key) else { return };
        known.open -= 1;
        if known.open == 0 {
            self.clock += 1;
            known.idle = self.clock;
            self.idle.insert(self.clock, key);
        }
    }

    fn forget_oldest(&mut self, most: usize) {
        while self.idle.len() > most {
            let Some((_, key)) = self.idle.pop_first() else { return };
            self.contexts.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FEW: StickySettings = StickySettings { idle_contexts: 2, open_tasks: 100 };

    fn binding(task: &str, context: &str, peer: &str) -> Binding {
        let (task, context) = (TaskId::from(task), Some(ContextId::from(context)));
        Binding { principal: Principal::anonymous(), task, context, peer: peer.into() }
    }

    fn find(sticky: &Sticky, principal: &Principal, task: &str, context: &str) -> Option<Bound> {
        let (task, context) = (TaskId::from(task), ContextId::from(context));
        sticky.find(&Wanted { task: Some(&task), context: Some(&context), ..Wanted::by(principal) })
    }

    #[test]
    fn a_task_goes_before_its_conversation() {
        let (sticky, me) = (Sticky::default(), Principal::anonymous());
        sticky.bind(binding("t", "c", "a"), &FEW);
        sticky.bind(binding("u", "c", "b"), &FEW);
        assert_eq!(find(&sticky, &me, "t", "c"), Some(Bound::Task("a".into())));
        assert_eq!(find(&sticky, &me, "", "c"), Some(Bound::Context("b".into())));
        assert_eq!(find(&sticky, &Principal::new("other", "anonymous"), "t", "c"), None);
    }

    #[test]
    fn an_open_task_and_its_conversation_are_never_forgotten() {
        let (sticky, me) = (Sticky::default(), Principal::anonymous());
        sticky.bind(binding("open", "held", "a"), &FEW);
        for at in 0..10 {
            let (task, context) = (format!("t{at}"), format!("c{at}"));
            sticky.bind(binding(&task, &context, "b"), &FEW);
            sticky.release(&me, &TaskId::from(task), &FEW);
        }
        assert_eq!(find(&sticky, &me, "open", ""), Some(Bound::Task("a".into())));
        assert_eq!(find(&sticky, &me, "", "held"), Some(Bound::Context("a".into())));
        let remembered = |at: usize| find(&sticky, &me, "", &format!("c{at}")).is_some();
        assert_eq!((0..10).filter(|at| remembered(*at)).collect::<Vec<_>>(), [8, 9]);
        assert_eq!(sticky.open_tasks(), 1);
    }

    #[test]
    fn a_conversation_that_is_held_again_is_kept() {
        let (sticky, me) = (Sticky::default(), Principal::anonymous());
        for (task, context) in [("1", "x"), ("2", "y"), ("3", "x"), ("4", "z")] {
            sticky.bind(binding(task, context, "a"), &FEW);
            sticky.release(&me, &TaskId::from(task), &FEW);
        }
        let known = |context| find(&sticky, &me, "", context).is_some();
        assert_eq!((known("x"), known("y"), known("z")), (true, false, true));
        assert_eq!(sticky.table().contexts.len(), 2);
    }

    #[test]
    fn what_is_said_twice_counts_once() {
        let (sticky, me) = (Sticky::default(), Principal::anonymous());
        sticky.bind(binding("t", "c", "a"), &FEW);
        sticky.bind(binding("t", "c", "b"), &FEW);
        assert_eq!(find(&sticky, &me, "t", "c"), Some(Bound::Task("a".into())));
        sticky.release(&me, &"t".into(), &FEW);
        sticky.release(&me, &"t".into(), &FEW);
        assert_eq!((sticky.open_tasks(), sticky.table().idle.len()), (0, 1));
    }
}
