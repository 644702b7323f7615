//! What is found at which address, and by whom.

use chancery_sdk::protocol::{ProtocolBinding, Version};
use chancery_sdk::{Client, ErrorCode, JsonObject, Message};
use serde_json::{Value, json};

use crate::gateway::Gateway;
use crate::http::{get, post};

const THREE: &str = r#"
[[agent]]
name = "echo"
kind = "builtin"

[[agent]]
name = "stream"
kind = "builtin"

[[agent]]
name = "ask"
kind = "builtin"
exposed = false
"#;

const V1: (&str, &str) = ("a2a-version", "1.0");
const BINDINGS: [ProtocolBinding; 3] =
    [ProtocolBinding::JsonRpc, ProtocolBinding::HttpJson, ProtocolBinding::Grpc];

/// The URL of the gateway itself.
fn root(gateway: &Gateway) -> String {
    gateway.agent("x").replace("/agents/x", "")
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().expect("a list").iter().map(|entry| entry["name"].as_str().expect("a name")).collect()
}

fn fleet_extension(card: &Value) -> &Value {
    let extensions = card["capabilities"]["extensions"].as_array().expect("extensions");
    let of_fleet = extensions.iter().find(|known| known["uri"] == "urn:chancery:ext:fleet:v1");
    &of_fleet.expect("the fleet's extension")["params"]
}

fn for_skill(text: &str, skill: &str) -> Message {
    let mut message = Message::user(text);
    let metadata = json!({"urn:chancery:ext:skill:v1": skill}).to_string();
    message.metadata = Some(JsonObject::parse(&metadata).expect("an object"));
    message
}

#[tokio::test]
async fn the_fleets_card_lists_whom_the_caller_may_see() {
    let gateway = Gateway::start(THREE);
    let root = root(&gateway);
    for path in ["agent-card.json", "agent.json"] {
        let card = get(&format!("{root}/.well-known/{path}"), &[V1]).await;
        assert!(card.headers["cache-control"].to_str().is_ok_and(|text| text.contains("private")));
        let card = card.json();
        let params = fleet_extension(&card);
        assert_eq!(names(&params["members"]), ["echo", "stream"]);
        for member in params["members"].as_array().expect("members") {
            let found = get(member["card"].as_str().expect("a URL"), &[V1]).await;
            assert_eq!(found.json()["supportedInterfaces"][0]["url"], member["url"]);
        }
        let skills: Vec<_> = card["skills"].as_array().expect("skills").iter().map(|s| &s["id"]).collect();
        assert_eq!(skills, ["echo", "stream"]);
    }
}

#[tokio::test]
async fn whoever_may_use_no_skill_of_an_agent_does_not_see_it() {
    let policy = "[policy.others]\ncallers = [\"alice\"]\nallowed_skills = [\"echo\"]\n";
    let without = "[[agent]]\nname = \"plain\"\nkind = \"inbox\"\n";
    let gateway = Gateway::start_with_key(&format!("{policy}{THREE}{without}"), "alice");
    let bob = gateway.run(&["key", "create", "--caller", "bob"]);
    let seen = async |key: &str| {
        let headers = [V1, ("x-api-key", key)];
        let card = get(&format!("{}/.well-known/agent-card.json", gateway.url()), &headers).await.json();
        let listed = names(&fleet_extension(&card)["members"]).join(" ");
        let page = get(&format!("{}/agents/", gateway.url()), &headers).await.json();
        (listed, names(&page["agents"]).join(" "))
    };
    let alice = gateway.key.as_deref().expect("a key");
    assert_eq!(seen(alice).await, ("echo".to_owned(), "echo".to_owned()));
    let all = "echo plain stream".to_owned();
    assert_eq!(seen(bob.trim()).await, (all.clone(), all));
}

#[tokio::test]
async fn what_a_caller_may_not_use_is_neither_listed_nor_in_the_catalogue() {
    let policy =
        "[policy.others]\ncallers = [\"alice\"]\nagents = [\"stream\"]\noperations = [\"GetTask\"]\n";
    let gateway = Gateway::start_with_key(&format!("{policy}{THREE}"), "alice");
    let root = root(&gateway);
    let bearer = format!("Bearer {}", gateway.key.as_deref().expect("a key"));
    let alice = [V1, ("authorization", bearer.as_str())];
    let card = get(&format!("{root}/.well-known/agent-card.json"), &alice).await.json();
    assert_eq!(names(&fleet_extension(&card)["members"]), ["echo"]);
    assert_eq!(names(&get(&format!("{root}/agents/"), &alice).await.json()["agents"]), ["echo"]);
    // Who says nothing sees nobody, and who lies is told so.
    let card = get(&format!("{root}/.well-known/agent-card.json"), &[V1]).await.json();
    assert_eq!(fleet_extension(&card)["members"], json!([]));
    assert_eq!(get(&format!("{root}/agents/"), &[V1]).await.status, 401);
    let liar = [V1, ("authorization", "Bearer made-up")];
    assert_eq!(get(&format!("{root}/.well-known/agent-card.json"), &liar).await.status, 401);
}

#[tokio::test]
async fn the_catalogue_is_filtered_and_paged() {
    let gateway = Gateway::start(&THREE.replace("exposed = false\n", ""));
    let catalogue = format!("{}/agents/", root(&gateway));
    for (query, expected) in [
        ("", &["ask", "echo", "stream"][..]),
        ("?skill=echo", &["echo"]),
        ("?tag=demo&text=WORD+FOR+WORD", &[]),
        ("?text=word%20for%20WORD", &["echo"]),
        ("?health=healthy", &["ask", "echo", "stream"]),
        ("?health=unhealthy", &[]),
    ] {
        let page = get(&format!("{catalogue}{query}"), &[]).await.json();
        assert_eq!(names(&page["agents"]), expected, "{query}");
    }
    let first = get(&format!("{catalogue}?limit=2"), &[]).await.json();
    assert_eq!((names(&first["agents"]), &first["nextCursor"]), (vec!["ask", "echo"], &json!("echo")));
    let second = get(&format!("{catalogue}?limit=2&cursor=echo"), &[]).await.json();
    assert_eq!((names(&second["agents"]), second.get("nextCursor")), (vec!["stream"], None));
    for wrong in ["?limit=0", "?limit=many", "?colour=red"] {
        assert_eq!(get(&format!("{catalogue}{wrong}"), &[]).await.status, 400, "{wrong}");
    }
}

#[tokio::test]
async fn a_message_to_the_fleet_goes_to_whoever_has_the_skill() {
    let gateway = Gateway::start(THREE);
    for binding in BINDINGS {
        let client = Client::builder().only([binding.clone()]).connect(root(&gateway)).await;
        let client = client.unwrap_or_else(|error| panic!("{binding:?}: {error}"));
        let said = client.send(for_skill("hello", "echo")).await;
        let said = said.unwrap_or_else(|error| panic!("{binding:?}: {error}"));
        assert_eq!(said.text(), "hello", "{binding:?}");
        let task = said.task().expect("a task").id.clone();
        assert_eq!(client.get(task.clone()).await.expect("it is known").id, task);
        let gone = client.cancel(task.clone()).await.expect_err("it is over");
        assert_eq!(gone.code(), Some(ErrorCode::TaskNotCancelable), "{binding:?}");
        let unknown = client.get("no-such-task").await.expect_err("nobody has it");
        assert_eq!(unknown.code(), Some(ErrorCode::TaskNotFound), "{binding:?}");
        let vague = client.send("hello").await.expect_err("which skill?").to_string();
        assert!(vague.contains("echo") && vague.contains("stream") && !vague.contains("ask,"), "{vague}");
        let unknown = client.send(for_skill("hello", "no-such-skill")).await.expect_err("nobody has it");
        assert!(unknown.to_string().contains("no-such-skill"), "{binding:?}: {unknown}");
        let hidden = client.send(for_skill("hello", "ask")).await.expect_err("it is internal");
        assert_eq!(hidden.to_string().replace("ask", "x"), unknown.to_string().replace("no-such-skill", "x"));
    }
}

#[tokio::test]
async fn plain_paths_submit_get_list_and_cancel() {
    let gateway = Gateway::start(THREE);
    let tasks = format!("{}/a2a/tasks", root(&gateway));
    let said = |text: &str, skill: &str| {
        json!({"message": {"messageId": text, "role": "ROLE_USER", "parts": [{"text": text}],
               "metadata": {"urn:chancery:ext:skill:v1": skill}}})
    };
    let mut ids = Vec::new();
    for (text, skill) in [("one", "echo"), ("two", "stream"), ("three", "echo")] {
        let sent = post(&tasks, &[], &said(text, skill)).await;
        assert_eq!(sent.status, 200, "{sent:?}");
        ids.insert(0, sent.json()["task"]["id"].as_str().expect("a task").to_owned());
    }
    let got = get(&format!("{tasks}/{}", ids[0]), &[]).await.json();
    assert_eq!(got["id"], json!(ids[0]));
    let mut listed = Vec::new();
    let mut token = String::new();
    loop {
        let page = get(&format!("{tasks}?pageSize=2&pageToken={token}"), &[]).await.json();
        assert_eq!(page["totalSize"], 3);
        listed.extend(
            page["tasks"]
                .as_array()
                .expect("tasks")
                .iter()
                .map(|task| task["id"].as_str().map(str::to_owned)),
        );
        token = page["nextPageToken"].as_str().unwrap_or_default().to_owned();
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(listed, ids.iter().cloned().map(Some).collect::<Vec<_>>());
    assert_eq!(post(&format!("{tasks}/{}/cancel", ids[0]), &[], &json!({})).await.status, 400);
    assert_eq!(get(&format!("{tasks}/no-such-task"), &[]).await.status, 404);
}

#[tokio::test]
async fn a_tenant_is_the_agents_name_everywhere() {
    let gateway = Gateway::start(THREE);
    let root = root(&gateway);
    let rpc = |tenant: &str| {
        json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"tenant": tenant,
               "message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}}})
    };
    let rest = rpc("echo")["params"].clone();
    for url in [root.clone(), format!("{root}/agents/echo"), format!("{root}/a2a/echo")] {
        let said = post(&format!("{url}/"), &[V1], &rpc("echo")).await.json();
        assert!(said["result"].to_string().contains("hello"), "{url}: {said}");
        let said = post(&format!("{url}/message:send"), &[V1], &rest).await;
        assert!(said.status == 200 && said.text.contains("hello"), "{url}: {said:?}");
        let said = post(&format!("{url}/echo/message:send"), &[V1], &rest).await;
        assert!(said.status == 200 && said.text.contains("hello"), "{url}: {said:?}");
    }
    let other = post(&format!("{root}/agents/echo/"), &[V1], &rpc("stream")).await;
    assert!(other.text.contains("is not known here"), "{other:?}");
    let [unknown, hidden] = ["nobody", "ask"].map(|tenant| {
        let (url, body) = (format!("{root}/"), rpc(tenant));
        async move { post(&url, &[V1], &body).await }
    });
    let (unknown, hidden) = (unknown.await, hidden.await);
    assert!(unknown.text.contains("is not known here"), "{unknown:?}");
    assert_eq!(unknown.looks(), hidden.looks());
}

#[tokio::test]
async fn an_internal_agent_is_not_there_for_anybody_outside() {
    let gateway = Gateway::start(THREE);
    let root = root(&gateway);
    let body = json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}});
    for below in
        ["", "/", "/.well-known/agent-card.json", "/tasks", "/_active", "/skills/greet/tasks", "/v1/card"]
    {
        for prefix in ["agents", "a2a"] {
            let hidden = get(&format!("{root}/{prefix}/ask{below}"), &[V1]).await;
            let nobody = get(&format!("{root}/{prefix}/nobody{below}"), &[V1]).await;
            assert_eq!(hidden.status, 404, "{prefix} {below}: {hidden:?}");
            assert_eq!(hidden.looks(), nobody.looks(), "{prefix} {below}");
        }
    }
    for below in ["/", "/message:send", "/rpc"] {
        let hidden = post(&format!("{root}/agents/ask{below}"), &[V1], &body).await;
        let nobody = post(&format!("{root}/agents/nobody{below}"), &[V1], &body).await;
        assert_eq!((hidden.status, hidden.looks()), (404, nobody.looks()), "{below}");
    }
    // Not even with a token that somebody made up.
    let liar = [V1, ("chancery-lineage", "made.up.token")];
    assert_eq!(post(&format!("{root}/agents/ask/message:send"), &liar, &body).await.status, 404);
}

#[tokio::test]
async fn the_key_of_an_agent_alone_does_not_open_an_internal_agent() {
    let gateway = Gateway::start_with_agent_key(&format!("[server]\nanonymous = true\n{THREE}"), "echo");
    let (root, key) = (root(&gateway), format!("Bearer {}", gateway.key.clone().expect("a key")));
    let agent = [V1, ("authorization", &*key)];
    let body = json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}});
    let hidden = post(&format!("{root}/agents/ask/message:send"), &agent, &body).await;
    let nobody = post(&format!("{root}/agents/nobody/message:send"), &agent, &body).await;
    assert_eq!((hidden.status, hidden.looks()), (404, nobody.looks()));
    let card = get(&format!("{root}/agents/ask/.well-known/agent-card.json"), &agent).await;
    assert_eq!(card.status, 404, "{card:?}");
}

#[tokio::test]
async fn a_skill_is_an_agent_of_its_own() {
    let gateway = Gateway::start(THREE);
    let url = format!("{}/skills/echo", gateway.agent("echo"));
    let card = get(&format!("{url}/.well-known/agent-card.json"), &[V1]).await.json();
    assert_eq!(card["skills"].as_array().map(Vec::len), Some(1));
    assert_eq!(card["supportedInterfaces"][0]["url"], json!(url));
    for version in [Version::V1_0, Version::V0_3] {
        for binding in [ProtocolBinding::JsonRpc, ProtocolBinding::HttpJson] {
            let client = Client::builder().version(version).only([binding.clone()]).connect(&url).await;
            let said = client.expect("it has a card").send("hello").await;
            assert_eq!(said.expect("it answers").text(), "hello", "{version} {binding:?}");
        }
    }
    let other = format!("{}/skills/other/.well-known/agent-card.json", gateway.agent("echo"));
    assert_eq!(get(&other, &[V1]).await.status, 404);
}

#[tokio::test]
async fn open_tasks_are_shown_to_their_owner() {
    let gateway = Gateway::start(&THREE.replace("exposed = false\n", ""));
    let client = Client::connect(gateway.agent("ask")).await.expect("it is there");
    let asked = client.send("hello").await.expect("it asks");
    let active = get(&format!("{}/_active", gateway.agent("ask")), &[]).await.json();
    assert_eq!(active["tasks"][0]["id"], json!(asked.task().expect("a task").id));
    assert_eq!(active["totalSize"], 1);
    let idle = get(&format!("{}/_active", gateway.agent("echo")), &[]).await.json();
    assert_eq!(idle, json!({"tasks": [], "totalSize": 0}));
}

#[test]
fn no_agent_is_called_like_a_path_of_ours() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["agents", "a2a", "v1", "tasks", "fleet", "metrics"] {
        let text = format!("[[agent]]\nname = \"{name}\"\nkind = \"a2a\"\nurl = \"http://127.0.0.1:9\"\n");
        std::fs::write(folder.path().join("chancery.toml"), text).expect("it is written");
        let ran = crate::gateway::chancery(folder.path()).arg("check").output().expect("it runs");
        let said = String::from_utf8_lossy(&ran.stderr).into_owned() + &String::from_utf8_lossy(&ran.stdout);
        assert!(!ran.status.success() && said.contains("is reserved"), "{name}: {said}");
    }
}
