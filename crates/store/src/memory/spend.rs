//! What was charged, added up. Each charge that makes a new sum pays for folding a few old ones, so their number
//! stays level without a thread.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use chancery_protocol::{Edge, Settled, Timestamp};
use foldhash::fast::RandomState;

use crate::edge::Realms;
use crate::limits::Retention;
use crate::record::Scope;
use crate::spend::{DAY, Fold, SPANS, Spend, SpendPage, SpendParty, SpendPlace, Sum, ago};

#[derive(Debug, Default)]
pub(super) struct Sums {
    sums: BTreeMap<SpendPlace, Sum>,
    parties: HashMap<i64, Party, RandomState>,
    /// Those that have a name.
    numbers: HashMap<SpendParty, i64, RandomState>,
    last_party: i64,
}

/// Who called whom.
#[derive(Debug)]
struct Party {
    realm: Arc<str>,
    caller: Option<Arc<str>>,
    groups: Vec<Arc<str>>,
    agent: Arc<str>,
    /// How many sums there are of it. Without any it is forgotten.
    sums: usize,
}

/// How many sums are kept. The oldest days go first.
const MOST_SUMS: usize = 65_536;
/// How many sums are folded at a time. One for each that is new would do to stay level; a few more catch up.
const STEP: usize = 4;

impl Sums {
    pub(super) fn add(&mut self, edge: &Edge, settled: Settled, retention: &Retention) {
        let payer = SpendParty::of(edge);
        let party = match self.numbers.get(&payer) {
            Some(party) => *party,
            None => self.begin(payer),
        };
        let sums = self.sums.len();
        self.count(SpendPlace::of(settled.at, party), Sum::of_one(&settled));
        if self.sums.len() > sums {
            self.tidy(settled.at, retention);
        }
    }

    pub(super) fn page(
        &self,
        realms: &Realms,
        since: Timestamp,
        after: Option<SpendPlace>,
        limit: usize,
    ) -> SpendPage {
        let mut page = SpendPage::default();
        let mut last = after;
        for span in SPANS {
            let begin = SpendPlace::last_by(span, since).max(after.unwrap_or(SpendPlace::last_by(0, since)));
            let end = SpendPlace { span, at: i64::MAX, party: i64::MAX };
            if begin >= end {
                continue;
            }
            for (place, sum) in self.sums.range((Bound::Excluded(begin), Bound::Included(end))) {
                let Some(party) = self.parties.get(&place.party).filter(|party| realms.has(&party.realm))
                else {
                    continue;
                };
                if page.sums.len() >= limit {
                    page.next = last;
                    return page;
                }
                page.sums.push(party.spend(*place, *sum));
                last = Some(*place);
            }
        }
        page
    }

    /// Folds a few sums that are old enough, and forgets what is too old or too much. Says whether there is more.
    pub(super) fn tidy(&mut self, now: Timestamp, retention: &Retention) -> bool {
        let mut done = 0;
        for Fold { from, into, before } in Fold::due(now) {
            let due = |span: i64| SpendPlace { span, at: before, party: 0 };
            while done < STEP {
                let first = self.sums.range(SpendPlace { at: i64::MIN, ..due(from) }..due(from)).next();
                let Some((place, sum)) = first.map(|(place, sum)| (*place, *sum)) else { break };
                self.count(place.widen(into), sum);
                self.remove(place);
                done += 1;
            }
        }
        let oldest = SpendPlace::last_by(DAY, ago(now, retention.spend));
        while done < STEP {
            let first = self.sums.range(SpendPlace { span: DAY, at: i64::MIN, party: 0 }..).next();
            let Some(place) = first.map(|(place, _)| *place) else { break };
            if place > oldest && self.sums.len() <= MOST_SUMS {
                break;
            }
            self.remove(place);
            done += 1;
        }
        done == STEP
    }

    /// Forgets the name of a caller, and nothing else.
    pub(super) fn unname(&mut self, realm: &str, caller: &str) {
        let is_theirs = |payer: &SpendParty| *payer.names.realm == *realm && *payer.names.owner == *caller;
        for (_, party) in self.numbers.extract_if(|payer, _| is_theirs(payer)) {
            if let Some(party) = self.parties.get_mut(&party) {
                party.caller = None;
            }
        }
    }

    fn begin(&mut self, payer: SpendParty) -> i64 {
        self.last_party += 1;
        let SpendParty { names: Scope { realm, owner, agent }, groups } = payer.clone();
        self.parties.insert(self.last_party, Party { realm, caller: Some(owner), groups, agent, sums: 0 });
        self.numbers.insert(payer, self.last_party);
        self.last_party
    }

    fn count(&mut self, place: SpendPlace, sum: Sum) {
        let is_new = || {
            if let Some(party) = self.parties.get_mut(&place.party) {
                party.sums += 1;
            }
            Sum::default()
        };
        self.sums.entry(place).or_insert_with(is_new).add(sum);
    }

    fn remove(&mut self, place: SpendPlace) {
        self.sums.remove(&place);
        let Some(party) = self.parties.get_mut(&place.party) else { return };
        party.sums -= 1;
        if party.sums == 0 {
            let gone = self.parties.remove(&place.party);
            if let Some(Party { realm, caller: Some(owner), groups, agent, .. }) = gone {
                self.numbers.remove(&SpendParty { names: Scope { realm, owner, agent }, groups });
            }
        }
    }
}

impl Party {
    fn spend(&self, place: SpendPlace, sum: Sum) -> Spend {
        let names = (self.realm.clone(), self.caller.clone(), self.agent.clone());
        Spend::new(place, names, self.groups.clone(), sum)
    }
}
