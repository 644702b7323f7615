//! Each sort of task that an old store has is found and goes on.

use chancery_sdk::ErrorCode;
use chancery_sdk::protocol::{ListTasksRequest, Message, SendMessageRequest, Version};
use serde_json::Value;

use crate::agent::{ASKS, AUTHORIZES, CANCELED, COMPLETED, NOT_YET, WORKING};
use crate::site::{
    Site, WAITED_AND_ASKS, WAITED_AND_IS_OUT, WAITED_AND_WORKS, WAITS, Who, repeat_first, said, wait,
};

const SUBMITTED: &str = "TASK_STATE_SUBMITTED";
const FAILED: &str = "TASK_STATE_FAILED";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_task_is_found_under_its_id_by_its_owner_and_nobody_else() {
    let site = Site::open().await;
    for (who, agent, id, state, words) in [
        (Who::Alice, "far", "t-1", COMPLETED, "all of it"),
        (Who::Alice, "far", "t-2", WORKING, "half of it, "),
        (Who::Alice, "far", "t-3", ASKS, ""),
        (Who::Alice, "far", "t-4", AUTHORIZES, ""),
        (Who::Alice, "far", "t-5", WORKING, "half of it, "),
        (Who::Alice, "pool", "t-1", COMPLETED, "all of it"),
        (Who::Alice, "pool", "t-2", WORKING, "half of it, "),
        (Who::Alice, "echo", "01a1f076-439c-7553-8933-7c684c90c055", COMPLETED, "one"),
        // This one was in the daybook.
        (Who::Alice, "echo", "01a1f076-439d-7685-a703-ad3c49f19d86", COMPLETED, "two"),
        (Who::Bob, "far", "t-6", COMPLETED, "all of it"),
        (Who::Bob, "far", WAITED_AND_WORKS, WORKING, "half of it, "),
        (Who::Bob, "far", WAITED_AND_ASKS, ASKS, ""),
        (Who::Bob, "far", WAITS, SUBMITTED, ""),
    ] {
        let task = site.get(who, agent, id).await;
        assert_eq!((task.id.as_str(), task.status.state.as_str()), (id, state), "{who:?} {agent}");
        assert_eq!(said(&task), words, "{agent} {id}");
        let has_asked = task.history.first().map(Message::text);
        assert!(has_asked.is_some_and(|text| !text.is_empty()), "{task:?}");
        let other = if matches!(who, Who::Alice) { Who::Bob } else { Who::Alice };
        let error = site.client(other, agent).await.get(id).await.expect_err("it is not theirs");
        assert_eq!(error.code(), Some(ErrorCode::TaskNotFound), "{agent} {id}");
    }
    for (who, agent, count) in [(Who::Alice, "far", 5), (Who::Alice, "pool", 2), (Who::Bob, "far", 5)] {
        let listed = site.client(who, agent).await.list(ListTasksRequest::default()).await;
        assert_eq!(listed.expect("they are listed").tasks.len(), count, "{who:?} {agent}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_at_work_is_followed_under_the_agents_id_and_posted_to_its_receiver() {
    let site = Site::open().await;
    let far = &site.far;
    wait("the agent to be asked", async || far.was_asked("SubscribeToTask", "t-2").then_some(())).await;
    let client = site.client(Who::Alice, "far").await;
    let mut events = client.subscribe("t-2").await.expect("it can be watched");
    far.finishes("t-2");
    let done = site.until(Who::Alice, "far", "t-2", COMPLETED).await;
    assert_eq!(said(&done), "half of it, the rest");
    let mut last = None;
    while let Some(event) = events.next().await {
        last = Some(event.expect("a good one"));
    }
    assert!(String::from_utf8_lossy(&last.expect("an event").json).contains(COMPLETED));
    // What had been posted before is not posted again.
    let receiver = &site.receiver;
    let posted = wait("two notifications", async || {
        let posted = receiver.bodies("/alice");
        (posted.len() >= 2).then_some(posted)
    });
    let posted: Vec<Value> =
        posted.await.iter().map(|body| serde_json::from_slice(body).expect("it is JSON")).collect();
    assert_eq!(posted.len(), 2, "{posted:?}");
    assert_eq!(posted[0]["artifactUpdate"]["artifact"]["parts"][0]["text"], "the rest");
    assert_eq!(posted[1]["statusUpdate"]["status"]["state"], COMPLETED);
    assert!(posted.iter().all(|event| event.to_string().contains("\"taskId\":\"t-2\"")), "{posted:?}");
    assert!(far.messages().is_empty(), "{:?}", far.messages());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waited_for_its_caller_takes_an_answer_with_the_agents_ids() {
    let site = Site::open().await;
    let mut answer = Message::user("this one").in_task("t-3".into());
    answer.reference_task_ids = vec!["t-1".into(), "t-9".into()];
    let client = site.client(Who::Alice, "far").await;
    let done = client.send(SendMessageRequest::from(answer)).await.expect("it is taken");
    let done = done.task().expect("a task");
    assert_eq!((done.id.as_str(), done.status.state.as_str()), ("t-3", COMPLETED), "{done:?}");
    assert_eq!(said(done), "this one");
    let heard = site.far.messages();
    let [answer] = &heard[..] else { panic!("{heard:?}") };
    assert_eq!(answer.task.as_deref(), Some("t-3"));
    assert_eq!(answer.message["contextId"], "c-3");
    assert_eq!(answer.message["referenceTaskIds"], serde_json::json!(["t-1"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_had_waited_for_the_budget_takes_an_answer_under_its_other_name() {
    let site = Site::open().await;
    site.top_up();
    // Only then is there room for the answer.
    site.until(Who::Bob, "far", WAITS, COMPLETED).await;
    let asks = site.answer(Who::Bob, "far", WAITED_AND_ASKS, NOT_YET).await;
    assert_eq!((asks.id.as_str(), asks.status.state.as_str()), (WAITED_AND_ASKS, ASKS), "{asks:?}");
    let done = site.answer(Who::Bob, "far", WAITED_AND_ASKS, "this one").await;
    assert_eq!((done.id.as_str(), done.status.state.as_str()), (WAITED_AND_ASKS, COMPLETED), "{done:?}");
    assert_eq!(said(&done), "this one");
    let heard = site.far.messages();
    let [.., one, other] = &heard[..] else { panic!("{heard:?}") };
    assert_eq!((one.task.as_deref(), other.task.as_deref()), (Some("t-7"), Some("t-7")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_for_an_authorization_goes_on_when_its_agent_does_and_holds_again() {
    let site = Site::open().await;
    let (far, before) = (&site.far, site.held(Who::Alice));
    wait("the agent to be asked", async || far.was_asked("SubscribeToTask", "t-4").then_some(())).await;
    far.comes_to("t-4", WORKING);
    site.until(Who::Alice, "far", "t-4", WORKING).await;
    site.until_held(Who::Alice, before + 250_000).await;
    far.finishes("t-4");
    let done = site.until(Who::Alice, "far", "t-4", COMPLETED).await;
    assert_eq!(said(&done), "the rest");
    site.until_held(Who::Alice, before).await;
    assert!(far.messages().is_empty(), "{:?}", far.messages());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_for_the_budget_waits_on_and_runs_once() {
    let site = Site::open().await;
    assert_eq!(site.get(Who::Bob, "far", WAITS).await.status.state.as_str(), SUBMITTED);
    site.top_up();
    let done = site.until(Who::Bob, "far", WAITS, COMPLETED).await;
    assert_eq!(said(&done), "finish");
    let heard = site.far.messages();
    let [sent] = &heard[..] else { panic!("{heard:?}") };
    assert_eq!((sent.message["messageId"].as_str(), &sent.task), (Some("bob-5"), &None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_let_through_and_not_answered_is_not_sent_again_and_is_charged() {
    let site = Site::open().await;
    let failed = site.until(Who::Bob, "far", WAITED_AND_IS_OUT, FAILED).await;
    let why = failed.status.message.as_ref().map(|said| said.text().into_owned()).unwrap_or_default();
    assert!(why.contains("the outcome is unknown"), "{why}");
    assert_eq!(site.charged(Who::Bob), (750_000, 3));
    assert!(site.far.messages().is_empty(), "{:?}", site.far.messages());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_had_waited_for_the_budget_is_followed_under_its_other_name() {
    let site = Site::open().await;
    let far = &site.far;
    wait("the agent to be asked", async || far.was_asked("SubscribeToTask", "t-8").then_some(())).await;
    far.finishes("t-8");
    let done = site.until(Who::Bob, "far", WAITED_AND_WORKS, COMPLETED).await;
    assert_eq!((done.id.as_str(), &*said(&done)), (WAITED_AND_WORKS, "half of it, the rest"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_of_a_pool_is_asked_for_at_the_member_that_has_it() {
    let site = Site::open().await;
    let south = &site.south;
    wait("the member to be asked", async || south.was_asked("SubscribeToTask", "t-2").then_some(())).await;
    south.finishes("t-2");
    let done = site.until(Who::Alice, "pool", "t-2", COMPLETED).await;
    assert_eq!(said(&done), "half of it, the rest");
    assert!(site.north.heard().is_empty(), "{:?}", site.north.heard());
    // Another agent has a task of the same id.
    assert_eq!(site.get(Who::Alice, "far", "t-2").await.status.state.as_str(), WORKING);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_at_work_is_canceled_under_the_agents_id() {
    let site = Site::open().await;
    for (who, id, there) in [(Who::Alice, "t-2", "t-2"), (Who::Bob, WAITED_AND_WORKS, "t-8")] {
        let client = site.client(who, "far").await;
        let canceled = client.cancel(id).await.expect("it can be");
        assert_eq!((canceled.id.as_str(), canceled.status.state.as_str()), (id, CANCELED));
        assert!(site.far.was_asked("CancelTask", there), "{:?}", site.far.heard());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_was_used_answers_the_task_that_it_has_begun() {
    let site = Site::open().await;
    let client = site.client(Who::Alice, "far").await;
    let task = repeat_first(&client).await;
    assert_eq!((task.id.as_str(), task.status.state.as_str()), ("t-1", COMPLETED));
    assert!(site.far.messages().is_empty(), "{:?}", site.far.messages());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_named_a_task_in_v0_1_finds_it_by_that_name() {
    let site = Site::open().await;
    let client = site.client_of(Who::Alice, "far", Version::V0_1).await;
    let named = client.get("named-by-alice").await.expect("it is found");
    assert_eq!((named.id.as_str(), named.status.state.as_str()), ("named-by-alice", WORKING));
    site.far.finishes("t-5");
    let done = wait("the end", async || {
        let task = client.get("named-by-alice").await.expect("it is found");
        (task.status.state.as_str() == COMPLETED).then_some(task)
    });
    assert_eq!(said(&done.await), "half of it, the rest");
}
