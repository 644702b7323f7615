//! What belongs to one caller does not exist for another, and nothing tells the two cases apart.

mod support;

use chancery_sdk::{AgentSpec, ErrorCode, Outcome, Turn};
use serde_json::{Value, json};
use support::*;

/// Asks back unless it is told to stop.
fn asker(name: &str) -> AgentSpec {
    let run = |turn: Turn| async move {
        Ok(if turn.text() == "stop" { Outcome::completed() } else { turn.ask("what?") })
    };
    AgentSpec::new(name, script(run))
}

/// Those who must not see what `r/ann` owns: somebody else, and somebody of that name elsewhere.
const STRANGERS: [(&str, &str); 4] = [("r", "bob"), ("s", "ann"), ("s", "bob"), ("r/ann", "ann")];

/// Everything one can ask about a task.
fn questions(id: &str) -> Vec<(&'static str, Value)> {
    let streamed = json!({"message": follow_up(id, "mine now")});
    vec![
        ("GetTask", json!({"id": id})),
        ("GetTask", json!({"id": id, "historyLength": 0})),
        ("CancelTask", json!({"id": id})),
        ("SubscribeToTask", json!({"id": id})),
        ("SendMessage", json!({"message": follow_up(id, "mine now")})),
        ("SendStreamingMessage", streamed),
    ]
}

async fn ask(client: &Client, method: &str, params: &Value) -> Answer {
    match client.try_open(method, &params.to_string()).await {
        Err(answer) => answer,
        Ok(_) => panic!("{method} {params} opened a stream"),
    }
}

/// The answer with the id that it was asked about taken out, and without what changes by the second.
fn anonymous(answer: &Answer, id: &str) -> (u16, Vec<(String, String)>, String) {
    let headers = answer.headers.iter().filter(|(name, _)| *name != "date" && *name != "content-length");
    let headers = headers.map(|(name, value)| (name.to_string(), format!("{value:?}"))).collect();
    (answer.status, headers, answer.body.replace(id, "ID"))
}

#[tokio::test]
async fn foreign_and_unknown_tasks_are_answered_alike() {
    let site = serve(asker("tester")).await;
    for wire in WIRES {
        let ann = site.client(wire).by("r", "ann");
        let (open, ended) = (ann.say("hi").await, ann.say("stop").await);
        for (realm, owner) in STRANGERS {
            let stranger = site.client(wire).by(realm, owner);
            for task in [&open, &ended] {
                let foreign = id(task);
                // As long as the real one, and as well formed.
                let unknown = chancery_sdk::TaskId::generate().to_string();
                for ((method, real), (_, none)) in questions(&foreign).iter().zip(questions(&unknown)) {
                    for seen in ["", "0", "1"] {
                        let stranger = stranger.clone().with("last-event-id", seen);
                        let real = ask(&stranger, method, real).await;
                        real.refused(ErrorCode::TaskNotFound);
                        let none = ask(&stranger, method, &none).await;
                        assert_eq!(anonymous(&real, &foreign), anonymous(&none, &unknown), "{method}");
                    }
                }
            }
        }
        assert_eq!((ann.get(&id(&open)).await, ann.get(&id(&ended)).await), (open, ended));
    }
}

#[tokio::test]
async fn lists_hold_only_what_the_caller_owns() {
    for wire in WIRES {
        let site = serve(asker("tester")).await;
        let client = |realm, owner| site.client(wire).by(realm, owner);
        let mut shared = message("hi");
        shared["contextId"] = json!(format!("shared-{wire:?}"));
        let mine = client("r", "ann").send(shared.clone()).await.task();
        for (realm, owner) in STRANGERS {
            let listed = client(realm, owner).call("ListTasks", json!({})).await.result();
            assert_eq!((&listed["totalSize"], &listed["tasks"]), (&json!(0), &json!([])));
            let by_context = json!({"contextId": mine["contextId"]});
            assert_eq!(client(realm, owner).call("ListTasks", by_context).await.result(), listed);
        }
        // The same context id in two hands is two contexts.
        let (realm, owner) = STRANGERS[0];
        let theirs = client(realm, owner).send(shared).await.task();
        assert_eq!(theirs["contextId"], mine["contextId"]);
        for (client, own) in [(client("r", "ann"), &mine), (client(realm, owner), &theirs)] {
            let filter = json!({"contextId": mine["contextId"]});
            let listed = client.call("ListTasks", filter).await.result();
            assert_eq!((&listed["totalSize"], &listed["tasks"][0]["id"]), (&json!(1), &own["id"]));
        }
        client(realm, owner).cancel(&id(&theirs)).await.task();
        client(realm, owner).send(follow_up(&id(&mine), "x")).await.refused(ErrorCode::TaskNotFound);
        assert_eq!(client("r", "ann").get(&id(&mine)).await, mine);
    }
}

#[tokio::test]
async fn a_page_token_of_somebody_else_shows_nothing_of_theirs() {
    let site = serve(asker("tester")).await;
    let (ann, bob) = (site.rest().by("r", "ann"), site.rest().by("r", "bob"));
    for _ in 0..3 {
        ann.say("hi").await;
    }
    let page = ann.call("ListTasks", json!({"pageSize": 1})).await.result();
    let listed = bob.call("ListTasks", json!({"pageToken": page["nextPageToken"]})).await.result();
    assert_eq!((&listed["totalSize"], &listed["tasks"]), (&json!(0), &json!([])));
}

#[tokio::test]
async fn foreign_references_are_as_good_as_none() {
    let spec = agent(|turn: Turn| async move {
        Ok(Outcome::text(format!("{} {}", turn.referenced_tasks().len(), turn.principal().id)))
    });
    let site = serve(spec).await;
    let theirs = site.rest().by("r", "ann").say("hi").await;
    for (realm, owner) in STRANGERS {
        for reference in [id(&theirs), "no-such-task".to_owned()] {
            let mut message = message("look");
            message["referenceTaskIds"] = json!([reference]);
            let task = site.jsonrpc().by(realm, owner).send(message).await.task();
            assert_eq!(text(&task["artifacts"][0]), format!("0 {owner}"));
        }
    }
}

#[tokio::test]
async fn the_same_idempotency_key_of_two_callers_is_two_keys() {
    let site = serve(asker("tester")).await;
    let message = json!({"message": message("hi")});
    let mut ids = Vec::new();
    for (realm, owner) in [("r", "ann")].into_iter().chain(STRANGERS) {
        let client = site.rest().by(realm, owner).with("idempotency-key", "k");
        let task = client.call("SendMessage", message.clone()).await.task();
        assert_eq!(client.call("SendMessage", message.clone()).await.task()["id"], task["id"]);
        ids.push(id(&task));
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 1 + STRANGERS.len());
}

#[tokio::test]
async fn agents_on_one_server_do_not_share_tasks() {
    let site = serve_with(|server| server.fleet_agent(asker("one")).fleet_agent(asker("two"))).await;
    for wire in WIRES {
        let (one, two) = (site.client(wire).at("/agents/one"), site.client(wire).at("/agents/two"));
        let task = one.say("hi").await;
        for (method, params) in questions(&id(&task)) {
            ask(&two, method, &params).await.refused(ErrorCode::TaskNotFound);
        }
        assert_eq!(one.get(&id(&task)).await, task);
    }
}

#[tokio::test]
async fn a_caller_that_nobody_knows_is_turned_away_with_a_challenge() {
    let site = serve(asker("tester")).await;
    for wire in WIRES {
        let client = site.client(wire).with("authorization", "Basic x");
        let answer = client.call("GetTask", json!({"id": "x"})).await;
        assert_eq!((answer.status, answer.header("www-authenticate")), (401, "Bearer"));
        answer.refused(ErrorCode::Unauthenticated);
    }
}

#[tokio::test]
async fn the_tenant_must_be_the_agent() {
    let site = serve(asker("tester")).await;
    for wire in WIRES {
        let client = site.client(wire);
        let send = |tenant: &str| json!({"tenant": tenant, "message": message("hi")});
        assert_eq!(state(&client.call("SendMessage", send("tester")).await.task()), INPUT_REQUIRED);
        let refused = client.call("SendMessage", send("other")).await.refused(ErrorCode::InvalidParams);
        assert_eq!(refused.field, "tenant");
        let refused = client.call("ListTasks", json!({"tenant": "other"})).await;
        assert_eq!(refused.refused(ErrorCode::InvalidParams).field, "tenant");
    }
}

#[tokio::test]
async fn a_tenant_in_the_path_routes_too_and_must_agree_with_the_body() {
    let site = serve(asker("tester")).await;
    let below = |path: &str| site.rest().at(path);
    let task = below("/tester").say("hi").await;
    assert_eq!(below("/tester").get(&id(&task)).await, site.rest().get(&id(&task)).await);
    assert_eq!(state(&below("/tester").cancel(&id(&task)).await.task()), CANCELED);
    let refused = below("/other").send(message("hi")).await.refused(ErrorCode::InvalidParams);
    assert_eq!(refused.field, "tenant");
    for (path, tenant) in [("/tester", "other"), ("/other", "tester")] {
        let params = json!({"tenant": tenant, "message": message("hi")});
        let refused = below(path).call("SendMessage", params).await.refused(ErrorCode::InvalidParams);
        assert_eq!(refused.field, "tenant");
        let refused = below(path).call("ListTasks", json!({"tenant": tenant})).await;
        assert_eq!(refused.refused(ErrorCode::InvalidParams).field, "tenant");
    }
    let params = json!({"tenant": "tester", "message": message("hi")});
    assert_eq!(state(&below("/tester").call("SendMessage", params).await.task()), INPUT_REQUIRED);
}

#[tokio::test]
async fn a_tenant_in_the_query_counts_for_every_operation() {
    let site = serve(asker("tester")).await;
    let (post, client) = (http::Method::POST, site.rest());
    let body = json!({"message": message("hi")}).to_string();
    let sent = client.fetch(post.clone(), "/message:send?tenant=other", body.clone()).await;
    assert_eq!(sent.refused(ErrorCode::InvalidParams).field, "tenant");
    let sent = client.fetch(post.clone(), "/message:send?tenant=tester", body).await;
    let cancel = format!("/tasks/{}:cancel?tenant=other", id(&sent.task()));
    let refused = client.fetch(post, &cancel, String::new()).await;
    assert_eq!(refused.refused(ErrorCode::InvalidParams).field, "tenant");
}

#[tokio::test]
async fn a_tenant_may_be_a_realm_where_the_operator_says_so() {
    let site = serve_with(|server| server.agent(asker("tester")).tenant_is_realm()).await;
    for wire in WIRES {
        let client = site.client(wire).by("r", "ann");
        let send = |tenant: &str| json!({"tenant": tenant, "message": message("hi")});
        let inside = client.call("SendMessage", send("blue")).await.task();
        let get = |tenant: &str| json!({"tenant": tenant, "id": inside["id"]});
        assert_eq!(client.call("GetTask", get("blue")).await.task(), inside);
        for elsewhere in ["", "red", "tester", "blue/", "r/blue"] {
            client.call("GetTask", get(elsewhere)).await.refused(ErrorCode::TaskNotFound);
        }
        // The agent's own name is no realm.
        let plain = client.call("SendMessage", send("tester")).await.task();
        assert_eq!(client.get(&id(&plain)).await, plain);
    }
}

#[tokio::test]
async fn a_tenant_cannot_be_spelled_so_that_it_is_another_realm() {
    let site = serve_with(|server| server.agent(asker("tester")).tenant_is_realm()).await;
    let client = |realm: &str| site.jsonrpc().by(realm, "ann");
    let victim = client("a/b").say("hi").await;
    let inner = json!({"tenant": "c", "message": message("hi")});
    let inner = client("a/b").call("SendMessage", inner).await.task();
    client("a")
        .call("GetTask", json!({"tenant": "b", "id": victim["id"]}))
        .await
        .refused(ErrorCode::TaskNotFound);
    client("a")
        .call("GetTask", json!({"tenant": "b/c", "id": inner["id"]}))
        .await
        .refused(ErrorCode::TaskNotFound);
    client("a/b").call("GetTask", json!({"tenant": "c", "id": inner["id"]})).await.task();
}
