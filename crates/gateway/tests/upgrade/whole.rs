//! All that an old store has in flight, to its end: each call is paid once, and nothing is done twice.

use crate::agent::{COMPLETED, WORKING};
use crate::site::{
    Site, WAITED_AND_ASKS, WAITED_AND_IS_OUT, WAITED_AND_WORKS, WAITS, Who, repeat_first, wait,
};

/// All tasks but those that had ended.
const IN_FLIGHT: [(Who, &str, &str); 9] = [
    (Who::Alice, "far", "t-2"),
    (Who::Alice, "far", "t-3"),
    (Who::Alice, "far", "t-4"),
    (Who::Alice, "far", "t-5"),
    (Who::Alice, "pool", "t-2"),
    (Who::Bob, "far", WAITED_AND_WORKS),
    (Who::Bob, "far", WAITED_AND_IS_OUT),
    (Who::Bob, "far", WAITED_AND_ASKS),
    (Who::Bob, "far", WAITS),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_held_counts_from_the_start_and_all_of_it_is_settled_once() {
    let mut site = Site::open().await;
    assert_eq!(site.held(Who::Alice), 1_000_000);
    assert_eq!(site.charged(Who::Alice), (1_250_000, 4));
    site.until(Who::Bob, "far", WAITED_AND_IS_OUT, "TASK_STATE_FAILED").await;
    site.until_held(Who::Bob, 250_000).await;

    all_go_on(&site).await;
    let settled = [(site.charged(Who::Alice), (2_750_000, 9)), (site.charged(Who::Bob), (1_500_000, 6))];
    for (charged, expected) in settled {
        assert_eq!(charged, expected);
    }
    site.until_held(Who::Alice, 0).await;
    site.until_held(Who::Bob, 0).await;
    let open = site.gateway.run(&["admin", "-o", "json", "calls"]);
    assert_eq!(open.trim(), "{\"calls\":[]}");

    let heard = site.far.messages().len();
    assert_eq!(heard, 3, "two answers, and the message that waited: {:?}", site.far.messages());
    let asked = site.far.heard().len();
    let posted = site.receiver.count();
    site.gateway.kill_and_restart();
    for (who, agent, id) in IN_FLIGHT {
        assert!(site.get(who, agent, id).await.status.state.is_terminal(), "{agent} {id}");
    }
    let client = site.client(Who::Alice, "far").await;
    assert_eq!(repeat_first(&client).await.id.as_str(), "t-1");
    // What had been picked up again would have been asked for by the time that this has ended.
    let sent = client.send("and now").await.expect("it goes on");
    assert_eq!(sent.task().expect("a task").status.state.as_str(), COMPLETED);
    assert_eq!(site.far.messages().len(), heard + 1);
    assert_eq!(site.far.heard().len(), asked + 1, "{:?}", site.far.heard());
    assert_eq!(site.charged(Who::Alice), (3_000_000, 10));
    assert_eq!(site.charged(Who::Bob), (1_500_000, 6));
    site.until_held(Who::Alice, 0).await;
    assert_eq!(site.held(Who::Bob), 0);
    assert_eq!(site.receiver.count(), posted);
}

/// Has the agents go on with all that they have, the callers answer, and bob have room.
async fn all_go_on(site: &Site) {
    let (far, south) = (&site.far, &site.south);
    wait("the agents to be asked", async || {
        let far = ["t-2", "t-4", "t-5", "t-8"].iter().all(|task| far.was_asked("SubscribeToTask", task));
        (far && south.was_asked("SubscribeToTask", "t-2")).then_some(())
    })
    .await;
    far.comes_to("t-4", WORKING);
    site.until(Who::Alice, "far", "t-4", WORKING).await;
    ["t-2", "t-4", "t-5", "t-8"].iter().for_each(|task| far.finishes(task));
    south.finishes("t-2");
    site.answer(Who::Alice, "far", "t-3", "this one").await;
    site.top_up();
    site.until(Who::Bob, "far", WAITS, COMPLETED).await;
    site.answer(Who::Bob, "far", WAITED_AND_ASKS, "this one").await;
    for (who, agent, id) in IN_FLIGHT.into_iter().filter(|(_, _, id)| *id != WAITED_AND_IS_OUT) {
        site.until(who, agent, id, COMPLETED).await;
    }
    wait("two notifications", async || (site.receiver.count() >= 2).then_some(())).await;
}
