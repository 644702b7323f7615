//! The record of calls on disk: it is there again, in step with the tasks and the sums, and damage is found.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chancery_protocol::{Amount, CallLimits, CostSource, Edge, Settled, TaskState};
use chancery_store::{EdgeQuery, Realms, RootSpends, Store, StoreLimits};
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::test_runner::{Config, TestRunner};
use rusqlite::Connection;

use crate::calls::*;
use crate::folder::*;
use crate::support::*;

/// Something that is done to a store.
#[derive(Clone, Debug)]
enum Step {
    Put(Edge),
    /// With a task that it begins, and ends if it is settled; the task may be there already.
    Batch(u8, Edge),
    Sweep(i64),
    Delete(u8, u8),
}

const MINUTE: i64 = 60_000;
const REALMS: [&str; 2] = ["realm", "other"];
const CALLERS: [&str; 3] = ["ann", "bob", ""];

fn edge() -> impl Strategy<Value = Edge> {
    let amount = || {
        (any::<u64>(), 0..1_000_u64, 0..3_u64).prop_map(|(micro_usd, tokens, tasks)| Amount {
            micro_usd: micro_usd >> 20,
            tokens,
            tasks,
        })
    };
    let source = proptest::sample::select(vec![
        CostSource::Unknown,
        CostSource::Held,
        CostSource::Declared,
        CostSource::Reported,
        CostSource::Metered,
    ]);
    let state = proptest::option::of(proptest::sample::select(TERMINAL.to_vec()));
    let overrun = proptest::option::of(amount().prop_map(|amount| Amount { tasks: 0, ..amount }));
    let overrun = overrun.prop_map(Option::unwrap_or_default);
    let settled = (0..200_i64, amount(), overrun, source, state).prop_map(
        |(minute, charged, overrun, source, state)| Settled {
            at: at(minute * MINUTE),
            charged,
            overrun,
            source,
            state,
        },
    );
    let names = (0..2_usize, 0..3_usize, 0..2_u8, proptest::option::of(0..3_usize));
    let text = || proptest::option::of("[aé]{0,2}".prop_map(Arc::<str>::from));
    let texts = (text(), text(), text(), proptest::option::of(0..4_u8));
    (0..20_i64, 0..20_i64, 0..4_u16, names, texts, amount(), proptest::option::of(settled)).prop_map(
        |(
            millis,
            root,
            depth,
            (realm, caller, agent, payer),
            (trace, skill, peer, task),
            reserved,
            settled,
        )| Edge {
            root: hop(if depth == 0 { millis } else { root }),
            parent: (depth > 0).then(|| hop(root)),
            depth,
            trace,
            skill,
            peer,
            task: task.map(|task| format!("t{task}").as_str().into()),
            reserved,
            limits: CallLimits {
                tokens: (depth > 1).then_some(millis.unsigned_abs()),
                ..CallLimits::default()
            },
            settled,
            payer: payer.filter(|payer| *payer != caller).map(|payer| CALLERS[payer].into()),
            groups: Vec::new(),
            used: chancery_protocol::Usage::default(),
            ..call(millis).by(REALMS[realm], CALLERS[caller], &agent.to_string())
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => edge().prop_map(Step::Put),
        8 => (any::<u8>(), edge()).prop_map(|(task, edge)| Step::Batch(task, edge)),
        2 => (0..4_000_i64).prop_map(|minute| Step::Sweep(minute * MINUTE)),
        1 => (Just(0_u8), 0..3_u8).prop_map(|(realm, caller)| Step::Delete(realm, caller)),
    ]
}

impl Step {
    async fn take(&self, store: &Store) {
        self.begin(store).await;
        // The memory store holds its bounds at once, the other one when it is swept.
        store.sweep(at(0)).await;
    }

    async fn begin(&self, store: &Store) {
        match self {
            Self::Put(edge) => store.put_edge(edge.clone()).await.unwrap(),
            Self::Batch(task, edge) => {
                let mut batch = create(&format!("t{task}"), TaskState::Working, 0).edge(edge.clone());
                if edge.settled.is_some() {
                    batch = batch.status(TaskState::Completed, 1);
                }
                let _ = batch.commit(store, &scope()).await;
            }
            Self::Sweep(millis) => store.sweep(at(*millis)).await,
            Self::Delete(realm, caller) => {
                let (realm, caller) = (REALMS[usize::from(*realm)], CALLERS[usize::from(*caller)]);
                store.delete_owner(realm, caller).await.unwrap();
            }
        }
    }
}

/// What was spent on a day, by realm, caller and agent: millionths of a dollar, and calls.
type Days = BTreeMap<(i64, Arc<str>, Option<Arc<str>>, Arc<str>), (u64, u64)>;

/// All that a store shows of calls.
#[derive(Debug, PartialEq)]
struct Everything {
    queries: Vec<Vec<Edge>>,
    open: Vec<Edge>,
    days: Days,
    roots: Vec<RootSpends>,
}

async fn everything(store: &Store) -> Everything {
    let mut queries = Vec::new();
    for realms in [Realms::All, realm()] {
        let all = EdgeQuery { limit: 3, ..EdgeQuery::of(realms) };
        queries.push(edges(store, &all).await);
        queries.push(edges(store, &EdgeQuery { newest_first: true, ..all.clone() }).await);
        queries.push(edges(store, &EdgeQuery { trace: Some("a".into()), ..all.clone() }).await);
        queries.push(edges(store, &EdgeQuery { task: Some("t1".into()), ..all.clone() }).await);
        queries.push(edges(store, &EdgeQuery { caller: Some("ann".into()), ..all.clone() }).await);
        let part =
            EdgeQuery { agent: Some("1".into()), since: Some(at(3)), until: Some(at(15)), ..all.clone() };
        queries.push(edges(store, &part).await);
        for root in 0..20 {
            queries.push(edges(store, &EdgeQuery { root: Some(hop(root)), ..all.clone() }).await);
        }
    }
    // How long the spans are depends on when they were folded, and those who have no name any more may be several.
    let mut days = Days::new();
    for sum in sums(store, &Realms::All, 0).await {
        let day = sum.from.as_millis() / (24 * 60 * MINUTE);
        let total = days.entry((day, sum.realm, sum.caller, sum.agent)).or_default();
        *total = (total.0 + sum.charged.micro_usd, total.1 + sum.calls);
    }
    let roots = [store.spend_by_root(&Realms::All, at(5), 9).await.unwrap()];
    Everything { queries, open: open_edges(store, &Realms::All).await, days, roots: roots.to_vec() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_stores_say_the_same_of_calls() {
    let folder = Folder::new("edges-alike");
    let mut runner = TestRunner::new(Config { cases: 48, failure_persistence: None, ..Config::default() });
    let handle = tokio::runtime::Handle::current();
    let case = std::cell::Cell::new(0);
    let steps = || proptest::collection::vec(step(), 0..40);
    let outcome = tokio::task::block_in_place(|| {
        runner.run(&(steps(), steps()), |(first, second)| {
            case.set(case.get() + 1);
            handle.block_on(compare(&folder, case.get(), &first, &second));
            Ok(())
        })
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

async fn compare(folder: &Folder, case: usize, first: &[Step], second: &[Step]) {
    let limits = limits(|limits| {
        limits.retention.edges = Duration::from_secs(60 * 60 * 24);
        // More than there are: in memory whoever has most gives at once, on disk when it is swept, so who that is differs.
        limits.retention.max_edges = 1_000;
        limits.retention.spend = Duration::from_secs(2 * 86_400);
    });
    let name = format!("{case}.db");
    let open_at = |name: &str| open_with(&folder.path(name), limits);
    let (memory, sqlite) = (Store::open("memory:", limits).unwrap(), open_at(&name));
    for step in first {
        step.take(&memory).await;
        step.take(&sqlite).await;
    }
    let before = everything(&memory).await;
    assert_eq!(everything(&sqlite).await, before);
    is_sound(&sqlite).await;
    folder.copy_as_killed(&name, &format!("{case}-killed.db"));
    drop(sqlite);
    let (sqlite, killed) = (open_at(&name), open_at(&format!("{case}-killed.db")));
    assert_eq!(everything(&killed).await, before);
    for step in second.iter().chain(&[Step::Sweep(300 * MINUTE)]) {
        for store in [&memory, &sqlite, &killed] {
            step.take(store).await;
        }
    }
    let after = everything(&memory).await;
    for store in [&sqlite, &killed] {
        assert_eq!(everything(store).await, after);
        is_sound(store).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_cannot_be_written_takes_nobody_along() {
    let folder = Folder::new("edges-refused");
    let path = folder.path("a.db");
    let store = Arc::new(open(&path));
    let refuse = "CREATE TRIGGER refuse BEFORE INSERT ON edges WHEN NEW.peer = 'refused' \
                  BEGIN SELECT RAISE(ABORT, 'not this one'); END";
    Connection::open(&path).unwrap().execute_batch(refuse).unwrap();
    for round in 0..20 {
        on_threads(8, |thread| {
            let store = store.clone();
            async move {
                let n = round * 8 + thread as i64;
                let mut edge = call(n).by("realm", &format!("c{n}"), "a").settled(n, 1);
                edge.peer = (n % 8 == 0).then(|| "refused".into());
                let life = create(&format!("t{n}"), TaskState::Submitted, n).status(TaskState::Completed, n);
                assert_eq!(life.edge(edge).commit(&store, &scope()).await.is_ok(), n % 8 != 0);
            }
        })
        .await;
    }
    assert_eq!(store.list(&scope(), &query(1)).await.unwrap().total, 140);
    assert_eq!(edges(&store, &all()).await.len(), 140);
    assert_eq!(total(&sums(&store, &realm(), 0).await), (140, 140));
    is_sound(&store).await;
}

#[tokio::test]
async fn what_the_disk_has_changed_is_found_and_not_served() {
    let folder = Folder::new("edges-damage");
    let path = folder.path("a.db");
    let store = open(&path);
    for n in 0..5 {
        call(n).settled(n, 1).put(&store).await;
    }
    drop(store);
    let change = |sql: &str| assert_eq!(Connection::open(&path).unwrap().execute(sql, []).unwrap(), 1);
    change("UPDATE edges SET micro_usd = 2 WHERE hop = (SELECT min(hop) FROM edges)");
    let store = open(&path);
    let text = refusal(store.edges(&all()).await);
    assert!(text.contains("checksum"), "{text}");
    let later = EdgeQuery { since: Some(at(1)), ..all() };
    assert_eq!(edges(&store, &later).await.len(), 4, "the others are served");
    let problems = store.check().await.unwrap().problems;
    assert!(problems.len() == 1 && problems[0].contains(&hop(0).to_string()), "{problems:?}");
    drop(store);
    change("UPDATE edges SET micro_usd = 1 WHERE hop = (SELECT min(hop) FROM edges)");
    is_sound(&open(&path)).await;
    change("UPDATE spend SET calls = 4");
    let problems = open(&path).check().await.unwrap().problems;
    assert!(problems.len() == 1 && problems[0].contains("5 settled calls, not 4"), "{problems:?}");
    change("UPDATE spend SET calls = 5, party = 99");
    let problems = open(&path).check().await.unwrap().problems;
    assert!(problems.len() == 1 && problems[0].contains("1 sums"), "{problems:?}");
}

#[tokio::test]
async fn a_deletion_that_was_cut_short_shows_nothing_and_is_finished_later() {
    let folder = Folder::new("edges-cut-short");
    let path = folder.path("a.db");
    let store = open(&path);
    for n in 0..200 {
        call(n).by("realm", "ann", "x").settled(n, 1).put(&store).await;
    }
    call(300).by("realm", "ann", "x").put(&store).await;
    let mine = call(400).settled(400, 1).put(&store).await;
    drop(store);
    let file = Connection::open(&path).unwrap();
    file.execute_batch("UPDATE parties SET caller = NULL WHERE caller = 'ann'").unwrap();
    let rows = || file.query_row("SELECT count(*) FROM edges", [], |row| row.get::<_, i64>(0)).unwrap();
    let store = open(&path);
    assert_eq!(edges(&store, &EdgeQuery::of(Realms::All)).await, std::slice::from_ref(&mine));
    assert_eq!(open_edges(&store, &Realms::All).await, []);
    assert_eq!(rows(), 202);
    store.delete_owner("realm", "ann").await.unwrap();
    assert_eq!(rows(), 1);
    assert_eq!(edges(&store, &EdgeQuery::of(Realms::All)).await, [mine]);
    assert_eq!(total(&sums(&store, &realm(), 0).await), (201, 201));
    is_sound(&store).await;
}

#[tokio::test]
async fn the_limit_is_held_by_what_was_there_before() {
    let folder = Folder::new("edges-limit");
    let path = folder.path("a.db");
    let small = limits(|limits| limits.retention.max_edges = 7);
    for round in 0..4 {
        let store = open_with(&path, if round < 3 { StoreLimits::default() } else { small });
        for n in 0..150 {
            call(round * 1_000 + n).settled(n, 1).put(&store).await;
        }
        store.sweep(at(0)).await;
        assert_eq!(edges(&store, &all()).await.len() as i64, if round < 3 { (round + 1) * 150 } else { 7 });
        is_sound(&store).await;
    }
}
