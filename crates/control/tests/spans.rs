//! What the span of a call says, to who traces it. In a program of its own: whether a span is of interest is decided once for
//! a whole process, by whoever comes to it first, and other tests have no subscriber.

#[path = "pipeline/world.rs"]
#[allow(dead_code, reason = "the other tests of the pipeline need more of it")]
mod world;

use std::collections::BTreeMap;
use std::sync::Arc;

use chancery_protocol::{CallOutcome, TaskId, TaskState, Usage};
use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use world::*;

/// Writes down what the spans of calls say.
#[derive(Clone, Default)]
struct Tracer(Arc<Mutex<BTreeMap<String, String>>>);

impl Visit for Tracer {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.lock().insert(field.name().to_owned(), format!("{value:?}").trim_matches('"').to_owned());
    }
}

impl Subscriber for Tracer {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "chancery::call"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        span.record(&mut self.clone());
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut self.clone());
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn the_span_of_a_call_says_what_it_came_to() {
    let tracer = Tracer::default();
    tracing::subscriber::with_default(tracer.clone(), || {
        let world = Arc::new(World::default());
        let plane = plane(&Setup { price: Some(100), ..Setup::default() }, &world);
        let worker = working();
        let hold = begun(&pipeline(&plane, "worker", worker.clone()), &worker, call("alice"), "t-1");
        let used = Usage { input_tokens: 3, output_tokens: 4, cost_micro_usd: 2_500 };
        let settling = hold.settle(&TaskId::from("t-1"), CallOutcome::Task(TaskState::Completed), Some(used));
        hold.settled(&settling.settled);
    });
    let said = tracer.0.lock();
    let said = |name: &str| said.get(name).map(String::as_str).unwrap_or_default().to_owned();
    assert_eq!((said("task"), said("depth"), said("agent")), ("t-1".into(), "0".into(), "worker".into()));
    assert_eq!((said("actual_tokens"), said("actual_cost_usd")), ("7".into(), "0.0025".into()));
    assert_eq!((said("cost_source"), said("trace").len()), ("metered".into(), 32));
}
