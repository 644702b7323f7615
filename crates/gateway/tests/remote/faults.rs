//! What an agent does wrong is told to the operator once, with its cause and its form, and however often it happens.

use crate::agents::{Hostile, SPOKEN};
use crate::caller::Caller;
use crate::gateway::Gateway;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_agent_does_wrong_is_told_once() {
    let hostile = Hostile::start().await;
    let gateway = Gateway::start(&hostile.sections("far", "-", ""));
    for spoken in SPOKEN {
        let name = spoken.name("far");
        for _ in 0..3 {
            let sent = Caller::new(&gateway, name.clone()).send("nonsense secretword").await;
            assert!(sent.says("protocol does not allow"), "{name}: {sent:?}");
        }
        let log = gateway.log();
        let told: Vec<_> = log.lines().filter(|line| line.contains(&format!("agent {name}: "))).collect();
        let [line] = told[..] else { panic!("{name}: {log}") };
        assert!(line.contains("WARN") && line.contains("its answer cannot be read"), "{line}");
        assert!(line.contains("cause=") && line.contains("method=\"SendMessage\""), "{line}");
        assert!(
            spoken.binding != "jsonrpc" || line.contains("form={"),
            "the form of what came is shown: {line}"
        );
    }
    assert!(!gateway.log().contains("secretword"), "{}", gateway.log());
}
