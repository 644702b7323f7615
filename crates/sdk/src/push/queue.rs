//! Whose turn it is: hosts take turns, each with a few at a time. Those that failed last get one at a time, and all
//! of them together half of the slots, until one succeeds.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use chancery_store::{Delivery, OutboxPlace, Scope};

use super::PushLimits;
use crate::protocol::{PushConfigId, TaskId};

/// How many hosts that failed are remembered.
const AILING_HOSTS: usize = 4_096;

/// What is in hand: waiting for its turn, or on its way.
#[derive(Debug)]
pub(super) struct Queue {
    hosts: HashMap<Arc<str>, Line>,
    /// The hosts that somebody waits for.
    turns: VecDeque<Arc<str>>,
    /// If it was met in the store again meanwhile, with the place where.
    held: HashMap<Key, Option<OutboxPlace>>,
    /// The hosts that failed last.
    ailing: HashSet<Arc<str>>,
    waiting: usize,
    running: usize,
    retrying: usize,
    limits: PushLimits,
}

#[derive(Debug, Default)]
struct Line {
    waiting: VecDeque<Delivery>,
    running: usize,
}

/// One configuration.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key(Scope, TaskId, Option<PushConfigId>);

/// What is on its way, to be given back when it is not any more.
#[derive(Debug)]
pub(super) struct Ticket {
    key: Key,
    host: Arc<str>,
    is_retry: bool,
}

impl Queue {
    pub(super) fn new(limits: PushLimits) -> Self {
        Self {
            hosts: HashMap::new(),
            turns: VecDeque::new(),
            held: HashMap::new(),
            ailing: HashSet::new(),
            waiting: 0,
            running: 0,
            retrying: 0,
            limits,
        }
    }

    /// Takes something in hand, unless it is already. Gives it back if there is no room for it, among all or
    /// among those of its host.
    pub(super) fn offer(&mut self, host: &str, delivery: Delivery) -> Result<(), Delivery> {
        let key = Key(delivery.scope.clone(), delivery.task.clone(), delivery.config.id.clone());
        if let Some(met_again) = self.held.get_mut(&key) {
            *met_again = Some(delivery.place);
            return Ok(());
        }
        let share = (self.limits.waiting / 16).max(1);
        let in_line = self.hosts.get(host).map_or(0, |line| line.waiting.len());
        if self.waiting >= self.limits.waiting.max(1) || in_line >= share {
            return Err(delivery);
        }
        let host: Arc<str> =
            self.hosts.get_key_value(host).map_or_else(|| host.into(), |(host, _)| host.clone());
        let line = self.hosts.entry(host.clone()).or_default();
        if line.waiting.is_empty() {
            self.turns.push_back(host);
        }
        line.waiting.push_back(delivery);
        self.held.insert(key, None);
        self.waiting += 1;
        Ok(())
    }

    /// The next one that may go.
    pub(super) fn next(&mut self) -> Option<(Ticket, Delivery)> {
        if self.running >= self.limits.requests.max(1) {
            return None;
        }
        let retries_may = self.retrying < (self.limits.requests / 2).max(1);
        for _ in 0..self.turns.len() {
            let host = self.turns.pop_front()?;
            let Some(line) = self.hosts.get_mut(&host) else { continue };
            let ails = self.ailing.contains(&host);
            let has_room = line.running < if ails { 1 } else { self.limits.requests_per_host.max(1) };
            let is_retry = |delivery: &Delivery| ails || delivery.attempts > 0;
            let may_go = |delivery: &mut Delivery| has_room && (retries_may || !is_retry(delivery));
            let delivery = line.waiting.pop_front_if(may_go);
            if !line.waiting.is_empty() {
                self.turns.push_back(host.clone());
            }
            if let Some(delivery) = delivery {
                line.running += 1;
                let is_retry = is_retry(&delivery);
                return Some((self.depart(host, &delivery, is_retry), delivery));
            }
        }
        None
    }

    /// It is not on its way any more. Says where in the store it was met meanwhile: there may be more to do.
    pub(super) fn done(&mut self, ticket: &Ticket, failed: bool) -> Option<OutboxPlace> {
        if !failed {
            self.ailing.remove(&ticket.host);
        } else if self.ailing.len() < AILING_HOSTS {
            self.ailing.insert(ticket.host.clone());
        }
        self.running -= 1;
        self.retrying -= usize::from(ticket.is_retry);
        if let Some(line) = self.hosts.get_mut(&ticket.host) {
            line.running -= 1;
            if line.running == 0 && line.waiting.is_empty() {
                self.hosts.remove(&ticket.host);
            }
        }
        self.held.remove(&ticket.key).flatten()
    }

    /// Nobody is known to ail any more: a host that nobody has asked for since is not remembered for ever.
    pub(super) fn forget_ailing(&mut self) {
        self.ailing.clear();
    }

    fn depart(&mut self, host: Arc<str>, delivery: &Delivery, is_retry: bool) -> Ticket {
        self.waiting -= 1;
        self.running += 1;
        self.retrying += usize::from(is_retry);
        let key = Key(delivery.scope.clone(), delivery.task.clone(), delivery.config.id.clone());
        Ticket { key, host, is_retry }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{TaskPushNotificationConfig, Timestamp};

    fn delivery(task: &str, attempts: u32, row: u64) -> Delivery {
        let config = TaskPushNotificationConfig {
            tenant: String::new(),
            id: Some("c".into()),
            task_id: None,
            url: String::new(),
            token: String::new(),
            authentication: None,
        };
        Delivery {
            scope: Scope { realm: "r".into(), owner: "o".into(), agent: "a".into() },
            task: task.into(),
            config: Arc::new(config),
            version: chancery_protocol::Version::V1_0,
            cursor: 0,
            attempts,
            place: OutboxPlace { due: Timestamp::from_millis(0), row },
        }
    }

    fn limits(requests: usize, requests_per_host: usize, waiting: usize) -> PushLimits {
        PushLimits { requests, requests_per_host, waiting, ..PushLimits::default() }
    }

    /// Who goes next, all of them.
    fn departures(queue: &mut Queue) -> Vec<String> {
        std::iter::from_fn(|| queue.next()).map(|(_, delivery)| delivery.task.to_string()).collect()
    }

    #[test]
    fn hosts_take_turns_and_have_a_few_each() {
        let mut queue = Queue::new(limits(10, 2, 1_000));
        for n in 0..5 {
            queue.offer("slow", delivery(&format!("s{n}"), 0, n)).unwrap();
        }
        queue.offer("live", delivery("l0", 0, 9)).unwrap();
        queue.offer("live", delivery("l1", 0, 10)).unwrap();
        assert_eq!(departures(&mut queue), ["s0", "l0", "s1", "l1"]);
    }

    #[test]
    fn what_returns_makes_room() {
        let mut queue = Queue::new(limits(10, 1, 1_000));
        queue.offer("host", delivery("a", 0, 1)).unwrap();
        queue.offer("host", delivery("b", 0, 2)).unwrap();
        let (ticket, _) = queue.next().unwrap();
        assert!(queue.next().is_none());
        assert_eq!(queue.done(&ticket, false), None);
        let (ticket, next) = queue.next().unwrap();
        assert_eq!(next.task.as_str(), "b");
        queue.done(&ticket, false);
        assert!(queue.hosts.is_empty() && queue.turns.is_empty() && queue.held.is_empty());
        assert_eq!((queue.waiting, queue.running, queue.retrying), (0, 0, 0));
    }

    #[test]
    fn retries_get_half_of_the_slots() {
        let mut queue = Queue::new(limits(4, 4, 1_000));
        for n in 0..4 {
            queue.offer(&format!("dead{n}"), delivery(&format!("d{n}"), 1, n)).unwrap();
        }
        queue.offer("live", delivery("l0", 0, 10)).unwrap();
        queue.offer("live", delivery("l1", 0, 11)).unwrap();
        queue.offer("live", delivery("l2", 0, 12)).unwrap();
        assert_eq!(departures(&mut queue), ["d0", "d1", "l0", "l1"]);
    }

    #[test]
    fn a_host_that_failed_gets_one_at_a_time_until_it_succeeds() {
        let mut queue = Queue::new(limits(10, 4, 1_000));
        queue.offer("host", delivery("a", 0, 1)).unwrap();
        let (ticket, _) = queue.next().unwrap();
        queue.done(&ticket, true);
        for (n, task) in (2..).zip(["b", "c", "d", "e"]) {
            queue.offer("host", delivery(task, 0, n)).unwrap();
        }
        let (ticket, next) = queue.next().unwrap();
        assert_eq!((next.task.as_str(), queue.retrying), ("b", 1));
        assert!(queue.next().is_none());
        queue.done(&ticket, true);
        let (ticket, _) = queue.next().unwrap();
        assert!(queue.next().is_none());
        queue.done(&ticket, false);
        assert_eq!(departures(&mut queue), ["d", "e"]);
        assert_eq!(queue.retrying, 0);
    }

    #[test]
    fn many_hosts_that_fail_leave_half_of_the_slots() {
        let mut queue = Queue::new(limits(4, 4, 1_000));
        for n in 0..8 {
            queue.offer(&format!("dead{n}"), delivery(&format!("d{n}"), 0, n)).unwrap();
            let (ticket, _) = queue.next().unwrap();
            queue.done(&ticket, true);
        }
        // What is new to a host that failed is no better off than what has failed.
        for n in 0..8 {
            queue.offer(&format!("dead{n}"), delivery(&format!("e{n}"), 0, n)).unwrap();
        }
        queue.offer("live", delivery("l0", 0, 20)).unwrap();
        queue.offer("live", delivery("l1", 0, 21)).unwrap();
        assert_eq!(departures(&mut queue), ["e0", "e1", "l0", "l1"]);
    }

    #[test]
    fn what_is_in_hand_is_not_taken_twice_but_remembered() {
        let mut queue = Queue::new(limits(4, 4, 1_000));
        queue.offer("host", delivery("a", 0, 1)).unwrap();
        queue.offer("host", delivery("a", 0, 5)).unwrap();
        let (ticket, taken) = queue.next().unwrap();
        assert_eq!(taken.place.row, 1);
        assert!(queue.next().is_none());
        queue.offer("host", delivery("a", 0, 7)).unwrap();
        assert_eq!(queue.done(&ticket, false).unwrap().row, 7);
        queue.offer("host", delivery("a", 0, 7)).unwrap();
        assert!(queue.next().is_some());
    }

    #[test]
    fn what_does_not_fit_is_given_back() {
        let mut queue = Queue::new(limits(4, 4, 32));
        queue.offer("slow", delivery("a", 0, 1)).unwrap();
        queue.offer("slow", delivery("b", 0, 2)).unwrap();
        assert_eq!(queue.offer("slow", delivery("c", 0, 3)).unwrap_err().task.as_str(), "c");
        for n in 0..30 {
            queue.offer(&format!("h{n}"), delivery(&format!("t{n}"), 0, n)).unwrap();
        }
        assert!(queue.offer("another", delivery("z", 0, 40)).is_err());
        queue.next().unwrap();
        assert!(queue.offer("another", delivery("z", 0, 40)).is_ok());
    }
}
