//! What belongs to one caller stays with it: its contexts. And nothing that was said is lost, whatever it was called.

use serde_json::json;

use crate::agents::{Hostile, RemoteAgent, SPOKEN, section};
use crate::caller::{Caller, Reply, message};
use crate::gateway::Gateway;
use crate::judge;

/// A context that each caller takes for its own.
const WRITTEN: &str = "the-same-context";

async fn say(caller: &Caller, text: &str, context: Option<&str>) -> Reply {
    let mut params = message(text);
    if let Some(context) = context {
        params["message"]["contextId"] = context.into();
    }
    caller.ask("SendMessage", &params).await
}

/// The context at the agent in which a text was worked on.
fn context_there(agent: &RemoteAgent, text: &str) -> String {
    let notes = agent.executions(text);
    let context = notes.first().and_then(|note| note["context"].as_str());
    context.unwrap_or_else(|| panic!("it never heard `{text}`: {notes:?}")).to_owned()
}

fn context_of(reply: &Reply) -> String {
    reply.task()["contextId"].as_str().unwrap_or_else(|| panic!("no context: {reply:?}")).to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_callers_never_share_a_context_at_an_agent() {
    let hostile = Hostile::start().await;
    let gateway = Gateway::start_with_key(&hostile.sections("far", "-", ""), "alice");
    let bobs = gateway.run(&["key", "create", "--caller", "bob"]).trim().to_owned();
    let mut wrong = Vec::new();
    for spoken in SPOKEN {
        let (name, agent) = (spoken.name("far"), hostile.of(spoken));
        let alice = Caller::new(&gateway, &*name).with_key(gateway.key.as_deref().unwrap());
        let bob = Caller::new(&gateway, &*name).with_key(&bobs);
        until_known(&bob).await;
        let text = |what: &str| format!("echo {what} {name}");
        let written = say(&alice, &text("written"), Some(WRITTEN)).await;
        let again = say(&alice, &text("again"), Some(WRITTEN)).await;
        let given = say(&alice, &text("given"), None).await;
        let there = ["written", "again", "given"].map(|what| context_there(agent, &text(what)));
        if [&written, &again].map(context_of) != [WRITTEN, WRITTEN] {
            wrong.push(format!("{name}: a caller's own context is not kept: {written:?}"));
        }
        if there[0] != there[1] {
            wrong.push(format!("{name}: one context of a caller's is two at the agent: {there:?}"));
        }
        let known = [WRITTEN.to_owned(), context_of(&given), there[0].clone(), there[2].clone()];
        for (number, context) in known.iter().enumerate() {
            let text = text(&format!("bob {number}"));
            let told = say(&bob, &text, Some(context)).await;
            let of_bob = context_there(agent, &text);
            if there.contains(&of_bob) {
                wrong.push(format!("{name}: bob writes `{context}` and is where alice is: {of_bob}"));
            }
            if context_of(&told) != *context {
                wrong.push(format!("{name}: bob writes `{context}` and is told {}", context_of(&told)));
            }
        }
    }
    judge(&wrong);
}

/// Waits until a key that was made meanwhile is known.
async fn until_known(caller: &Caller) {
    while caller.get("none").await.status == 401 {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_on_other_sdks_do_not_see_one_context_of_two_callers() {
    let official = RemoteAgent::official().await;
    let sections: String = official.iter().map(|(name, agent)| section(name, agent.url(), "")).collect();
    let gateway = Gateway::start_with_key(&sections, "alice");
    let bobs = gateway.run(&["key", "create", "--caller", "bob"]).trim().to_owned();
    let mut wrong = Vec::new();
    for (name, _) in &official {
        let alice = Caller::new(&gateway, &**name).with_key(gateway.key.as_deref().unwrap());
        let bob = Caller::new(&gateway, &**name).with_key(&bobs);
        until_known(&bob).await;
        let (one, other) = (say(&alice, "tck-echo", None).await, say(&bob, "tck-echo", None).await);
        let context = context_of(&one);
        let shared = say(&bob, "tck-echo", Some(&context)).await;
        let alices = json!({"contextId": context});
        let (hers, his) = (alice.ask("ListTasks", &alices).await, bob.ask("ListTasks", &alices).await);
        let counts = [&hers, &his].map(|list| list.body["result"]["tasks"].as_array().map(Vec::len));
        if counts != [Some(1), Some(1)] || context_of(&other) == context || context_of(&shared) != context {
            wrong.push(format!("{name}: {counts:?}, {one:?}, {other:?}, {shared:?}"));
        }
    }
    judge(&wrong);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_with_equal_ids_are_all_kept() {
    let hostile = Hostile::start().await;
    let gateway = Gateway::start(&hostile.sections("far", "-", ""));
    let mut wrong = Vec::new();
    for spoken in SPOKEN {
        let caller = Caller::new(&gateway, spoken.name("far"));
        let say = async |text: &str, task: Option<&str>| {
            let mut params = message(text);
            params["message"]["messageId"] = "the-same".into();
            if let Some(task) = task {
                params["message"]["taskId"] = task.into();
            }
            caller.ask("SendMessage", &params).await
        };
        let first = say("same one", None).await;
        if first.state() != "TASK_STATE_INPUT_REQUIRED" {
            wrong.push(format!("{}: {first:?}", caller.agent));
            continue;
        }
        say("two", Some(first.id())).await;
        say("done", Some(first.id())).await;
        let task = caller.ask("GetTask", &json!({"id": first.id()})).await;
        let mut said: Vec<String> = Vec::new();
        let history = task.task()["history"].as_array().cloned().unwrap_or_default();
        for message in history.iter().chain([&task.task()["status"]["message"]]) {
            said.push(message["parts"][0]["text"].as_str().unwrap_or_default().to_owned());
        }
        let all = ["same one", "about: same one", "two", "about: two", "done", "about: done"];
        if said != all {
            wrong.push(format!("{}: {said:?}", caller.agent));
        }
    }
    judge(&wrong);
}
