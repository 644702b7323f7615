//! A pool goes on without a member that cannot be reached: nothing was sent to it, so another is asked within the same call.

use std::net::TcpListener;

use crate::agents::{Hostile, SPOKEN};
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::judge;
use crate::records::exported;

const CALLS: usize = 20;

/// An address where nobody listens.
fn nowhere() -> String {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    format!("http://{port}")
}

fn pools(hostile: &Hostile, dead: impl Fn(crate::agents::Spoken) -> String) -> String {
    let pool = |spoken: crate::agents::Spoken| {
        format!(
            "[[agent]]\nname = \"{}\"\nkind = \"a2a\"\nprice = {{ per_call = 0.01 }}\nselector = \"round_robin\"\n\
             members = [{{ name = \"dead\", url = \"{}\" }}, {{ name = \"well\", url = \"{}\" }}]\n",
            spoken.name("pool"),
            dead(spoken),
            hostile.url(spoken, "-"),
        )
    };
    SPOKEN.into_iter().map(pool).collect()
}

async fn all_answered(gateway: &Gateway, hostile: &Hostile) -> Vec<String> {
    let mut wrong = Vec::new();
    for spoken in SPOKEN {
        let name = spoken.name("pool");
        let caller = Caller::new(gateway, &*name);
        let text = format!("echo {name}");
        let mut answered = 0;
        let mut told = Vec::new();
        let mut last = None;
        for _ in 0..CALLS {
            let sent = caller.send(&text).await;
            told.push(sent.task()["metadata"]["urn:chancery:ext:lineage:v1"]["routing"].clone());
            answered += usize::from(sent.state() == "TASK_STATE_COMPLETED");
            last = Some(sent).filter(|sent| sent.state() != "TASK_STATE_COMPLETED").or(last);
        }
        let worked = hostile.of(spoken).count(&text);
        let members = exported(gateway, &name);
        let by_well = members.iter().filter(|row| row.at("peer") == "well").count();
        if by_well < CALLS {
            wrong.push(format!("{name}: the record says of {by_well} of {CALLS} calls who answered them"));
        }
        if let Some(choice) = told.iter().find(|choice| choice["peer"] != "well") {
            wrong.push(format!("{name}: the caller is told of another member: {choice}"));
        }
        if (answered, worked) != (CALLS, CALLS) {
            wrong.push(format!("{name}: {answered} of {CALLS} answered, {worked} worked on: {last:?}"));
        }
    }
    wrong
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_was_never_there_costs_no_call() {
    let hostile = Hostile::start().await;
    let dead = nowhere();
    let gateway = Gateway::start(&pools(&hostile, |_| dead.clone()));
    judge(&all_answered(&gateway, &hostile).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_is_gone_costs_no_call() {
    let (hostile, mut dying) = (Hostile::start().await, Hostile::start().await);
    let gateway = Gateway::start(&pools(&hostile, |spoken| dying.url(spoken, "-")));
    for spoken in SPOKEN {
        // Both members are known and have been called.
        for _ in 0..2 {
            let sent = Caller::new(&gateway, spoken.name("pool")).send("echo before").await;
            assert_eq!(sent.state(), "TASK_STATE_COMPLETED", "{sent:?}");
        }
    }
    for spoken in [SPOKEN[0], SPOKEN[3]] {
        dying.of_mut(spoken).kill().await;
    }
    judge(&all_answered(&gateway, &hostile).await);
}
