//! A server as its operator sees it: what it refuses to start with, what its cards say, what it hands out.

mod support;

use std::time::Duration;

use chancery_sdk::protocol::{ProtocolBinding, SecurityScheme, Version};
use chancery_sdk::{
    BuildError, ErrorCode, Offer, Outcome, Principal, ServeError, Server, ServerBuilder, ServerLimits, Turn,
    WELL_KNOWN_CARD,
};
use http::Method;
use serde_json::{Value, json};
use support::*;

const SECRET: &str = "hunter2";

#[tokio::test]
async fn authentication_elsewhere_resumes_a_task_that_is_served() {
    let runs = Counter::default();
    let spec = agent({
        let runs = runs.clone();
        move |turn: Turn| {
            let signed_in = runs.add() > 1;
            async move {
                let noted = turn.request_metadata().is_some();
                if signed_in {
                    Ok(Outcome::text(format!("{} {noted}", turn.text())))
                } else {
                    Ok(turn.ask_for_auth("sign in"))
                }
            }
        }
    });
    let server =
        anonymous().agent(spec).fleet_agent(named("other")).bind("127.0.0.1:0").await.expect("a server");
    assert!(server.runtime("nobody").is_none() && server.runtime("other").is_some());
    let agent = server.runtime("tester").expect("it is served");
    let client = Client::new(server.local_addr().expect("an address"), Wire::JsonRpc);
    tokio::spawn(server.run_until(std::future::pending()));
    let params = json!({"message": message("secret"), "metadata": {"once": true}});
    let mut stream = client.open("SendStreamingMessage", params).await;
    let events = stream.through(|event| event.is(AUTH_REQUIRED)).await;
    let task = id(&events[0].payload()["task"]);
    assert_eq!(state(&client.get(&task).await), AUTH_REQUIRED);
    agent.resume(&Principal::anonymous(), &task.as_str().into()).await.expect("resumed");
    // Who still follows the task sees it go on.
    assert!(stream.rest().await.pop().expect("an end").is(COMPLETED));
    // The turn has the message again, but the request that brought it is over.
    assert_eq!(text(&client.get(&task).await["artifacts"][0]), "secret false");
}

#[tokio::test]
async fn a_service_hands_out_its_runtimes_too() {
    let service =
        anonymous().public_url("http://a.example").fleet_agent(named("one")).build().expect("a service");
    assert!(service.runtime("one").is_some() && service.runtime("two").is_none());
}

#[tokio::test]
async fn a_panic_in_authenticate_is_an_internal_error() {
    let server = Server::builder()
        .authenticate(|head| match head.headers.contains_key("authorization") {
            true => panic!("cannot look up {SECRET}"),
            false => Ok(Principal::anonymous()),
        })
        .security_scheme("bearer", SecurityScheme::bearer());
    let site = run(server.agent(echo())).await;
    for wire in WIRES {
        let client = Client::new(site, wire);
        for method in ["SendMessage", "SendStreamingMessage"] {
            let params = json!({"message": message("go")});
            let answer = client.clone().by("r", "ann").call(method, params).await;
            answer.refused(ErrorCode::Internal);
            assert!(!answer.body.contains(SECRET));
        }
        assert_eq!(state(&client.say("still there").await), COMPLETED);
    }
    // The connection is still there as well.
    let get = |headers: &str| {
        format!("GET /tasks HTTP/1.1\r\nHost: localhost\r\nA2A-Version: 1.0\r\n{headers}\r\n")
    };
    let two = get("Authorization: x\r\n") + &get("Connection: close\r\n");
    let answers = raw(site, two.as_bytes()).await;
    assert!(answers.starts_with("HTTP/1.1 500") && answers.contains("HTTP/1.1 200"), "{answers}");
}

#[tokio::test]
async fn a_panic_in_extended_card_is_an_internal_error() {
    let site = serve(echo().extended_card(|_, _| panic!("cannot look up {SECRET}"))).await;
    for wire in WIRES {
        let answer = site.client(wire).call("GetExtendedAgentCard", json!({})).await;
        answer.refused(ErrorCode::Internal);
        assert!(!answer.body.contains(SECRET));
    }
}

#[tokio::test]
async fn limits_that_cannot_be_kept_to_are_problems() {
    let (zero, ever, most) = (Duration::ZERO, Duration::MAX, usize::MAX);
    let none = ServerLimits {
        body_bytes: 0,
        header_timeout: zero,
        body_timeout: zero,
        header_bytes: 0,
        headers: 0,
        connections: 0,
        connections_per_source: 0,
        streams: 0,
        streams_per_owner: 0,
        unread_bytes: 0,
        unread_bytes_per_owner: 0,
        write_timeout: zero,
        refused_credentials: 0,
        requests_per_connection: 0,
        resets: 0,
        keep_alive: zero,
        drain: zero,
    };
    let absurd = ServerLimits {
        body_bytes: most,
        header_timeout: ever,
        body_timeout: ever,
        header_bytes: most,
        headers: most,
        connections: most,
        connections_per_source: most,
        streams: most,
        streams_per_owner: most,
        unread_bytes: most,
        unread_bytes_per_owner: most,
        write_timeout: ever,
        refused_credentials: most,
        requests_per_connection: u32::MAX,
        resets: most,
        keep_alive: ever,
        drain: ever,
    };
    let refused = |limits| {
        let server = anonymous().agent(echo()).public_url("http://a.example").limits(limits);
        server.build().expect_err("limits that cannot be kept to").problems
    };
    let names = ["header_timeout", "body_timeout", "keep_alive", "body_bytes", "header_bytes", "headers"];
    for limits in [none, absurd] {
        let problems = refused(limits);
        for name in names.iter().chain(&[
            "connections",
            "streams",
            "connections_per_source",
            "streams_per_owner",
            "write_timeout",
        ]) {
            let named = problems.iter().filter(|problem| problem.contains(&format!("`{name}`")));
            assert_eq!(named.count(), 1, "{name} in {problems:?}");
        }
    }
    // All of it is said, and a shutdown may wait for nothing.
    assert_eq!((refused(none).len(), refused(absurd).len()), (16, 12));
    let fine = ServerLimits { drain: zero, ..ServerLimits::default() };
    anonymous().agent(echo()).public_url("http://a.example").limits(fine).build().expect("a service");
}

#[tokio::test]
async fn two_agents_of_one_name_are_a_problem() {
    let server = anonymous().public_url("http://a.example").agent(echo()).fleet_agent(echo());
    let BuildError { problems } = server.build().expect_err("their tasks would be each other's");
    assert_eq!(problems, ["two agents are called `tester`"]);
}

#[tokio::test]
async fn the_card_and_json_rpc_say_which_verbs_they_take() {
    let site = run(anonymous().agent(echo()).fleet_agent(named("other")).jsonrpc_path("/v1/rpc")).await;
    let client = Client::new(site, Wire::Rest);
    for base in ["", "/agents/other"] {
        for (verb, path, allow) in [
            (Method::GET, "/rpc", "POST"),
            (Method::GET, "/v1/rpc/", "POST"),
            (Method::PUT, "/jsonrpc", "POST"),
            (Method::POST, WELL_KNOWN_CARD, "GET, HEAD"),
            (Method::DELETE, WELL_KNOWN_CARD, "GET, HEAD"),
        ] {
            let answer = client.fetch(verb, &format!("{base}{path}"), String::new()).await;
            assert_eq!((answer.status, answer.header("allow")), (405, allow), "{path}");
        }
        assert_eq!(
            client.fetch(Method::GET, &format!("{base}{WELL_KNOWN_CARD}"), String::new()).await.status,
            200
        );
        // JSON-RPC has been moved away from here.
        assert_eq!(client.fetch(Method::GET, &format!("{base}/"), String::new()).await.status, 404);
    }
}

#[tokio::test]
async fn json_rpc_leaves_the_paths_of_operations_alone() {
    let site = run(anonymous().agent(echo()).jsonrpc_path("/tasks")).await;
    let rest = Client::new(site, Wire::Rest);
    assert_eq!(rest.call("ListTasks", json!({})).await.result()["totalSize"], 0);
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "ListTasks"}).to_string();
    assert_eq!(rest.fetch(Method::POST, "/tasks", list).await.result()["totalSize"], 0);
    let answer = rest.fetch(Method::PUT, "/tasks", String::new()).await;
    assert_eq!((answer.status, answer.header("allow")), (405, "POST, GET"));

    let root = run(anonymous().agent(echo())).await;
    for verb in [Method::GET, Method::DELETE, Method::OPTIONS] {
        let answer = Client::new(root, Wire::Rest).fetch(verb, "/", String::new()).await;
        assert_eq!((answer.status, answer.header("allow")), (405, "POST"));
    }
}

#[tokio::test]
async fn an_address_that_others_can_reach_needs_authentication_or_consent() {
    let open = || anonymous().agent(echo()).public_url("http://a.example");
    let Err(ServeError::Build(BuildError { problems })) = open().bind("0.0.0.0:0").await else {
        panic!("everyone was let in");
    };
    assert!(problems.len() == 1 && problems[0].contains("`allow_anonymous`"), "{problems:?}");
    for server in [
        open().allow_anonymous(),
        open()
            .authenticate(|_| Ok(Principal::anonymous()))
            .security_scheme("bearer", SecurityScheme::bearer()),
    ] {
        let server = server.bind("0.0.0.0:0").await.expect("a server");
        let address = ([127, 0, 0, 1], server.local_addr().expect("an address").port()).into();
        tokio::spawn(server.run_until(std::future::pending()));
        assert_eq!(state(&Client::new(address, Wire::Rest).say("hi").await), COMPLETED);
    }
    assert!(open().bind("127.0.0.1:0").await.is_ok());
}

#[tokio::test]
async fn the_card_says_how_to_authenticate() {
    let server = anonymous()
        .agent(echo())
        .authenticate(|_| Ok(Principal::anonymous()))
        .security_scheme("token", SecurityScheme::bearer())
        .security_scheme("key", SecurityScheme::api_key_header("X-Key"));
    let site = run(server).await;
    let card = Client::new(site, Wire::Rest).fetch(Method::GET, WELL_KNOWN_CARD, String::new()).await.json();
    assert_eq!(card["securitySchemes"]["token"]["httpAuthSecurityScheme"]["scheme"], "Bearer");
    assert_eq!(card["securitySchemes"]["key"]["apiKeySecurityScheme"]["name"], "X-Key");
    // One of them is enough.
    let required = card["securityRequirements"].as_array().expect("requirements");
    let names: Vec<_> = required
        .iter()
        .map(|any| any["schemes"].as_object().expect("schemes").keys().collect::<Vec<_>>())
        .collect();
    assert_eq!(names, [["key"], ["token"]]);

    // Where callers may keep to themselves who they are, it says how one can, and demands nothing.
    let either = anonymous()
        .agent(echo())
        .authenticate(|_| Ok(Principal::anonymous()))
        .security_scheme("token", SecurityScheme::bearer())
        .allow_anonymous();
    let site = Client::new(run(either).await, Wire::Rest).without("a2a-version");
    let card = site.fetch(Method::GET, WELL_KNOWN_CARD, String::new()).await.json();
    assert!(card["securitySchemes"].get("token").is_some(), "{card}");
    let demands =
        |name: &str| card.get(name).is_some_and(|any| any.as_array().is_none_or(|any| !any.is_empty()));
    assert!(!demands("securityRequirements") && !demands("security"), "{card}");
    assert_eq!(card["authentication"]["schemes"], json!([]), "{card}");

    let open = run(anonymous().agent(echo())).await;
    let card = Client::new(open, Wire::Rest).fetch(Method::GET, WELL_KNOWN_CARD, String::new()).await.json();
    assert!(card.get("securitySchemes").is_none() && card.get("securityRequirements").is_none(), "{card}");
}

#[tokio::test]
async fn authentication_and_its_scheme_go_together() {
    let server = || anonymous().agent(echo()).public_url("http://a.example");
    let silent = server().authenticate(|_| Ok(Principal::anonymous())).build().expect_err("no card says how");
    assert!(silent.problems[0].contains("`security_scheme`"), "{silent}");
    let empty =
        server().security_scheme("bearer", SecurityScheme::bearer()).build().expect_err("nobody checks");
    assert!(empty.problems[0].contains("`authenticate`"), "{empty}");
}

fn anonymous() -> ServerBuilder {
    Server::builder()
}

fn named(name: &str) -> chancery_sdk::AgentSpec {
    chancery_sdk::AgentSpec::new(name, script(|_| async { Ok(Outcome::completed()) }))
}

async fn run(server: ServerBuilder) -> std::net::SocketAddr {
    let server = server.bind("127.0.0.1:0").await.expect("the server binds");
    let address = server.local_addr().expect("an address");
    tokio::spawn(server.run_until(std::future::pending()));
    address
}

/// Counts how often it is asked to sign.
#[derive(Default)]
struct Signer(Counter);

impl chancery_sdk::CardSigner for Signer {
    fn sign(&self, card: &mut chancery_sdk::protocol::AgentCard) -> Result<(), chancery_sdk::Error> {
        card.documentation_url = Some(format!("https://signed.example/{}", self.0.add()));
        Ok(())
    }

    fn published(&self) -> Vec<u8> {
        Vec::new()
    }
}

#[tokio::test]
async fn a_card_is_signed_when_it_is_first_shown_and_when_the_keys_have_changed() {
    let signer = std::sync::Arc::new(Signer::default());
    let site =
        serve_with(|server| server.agent(echo()).fleet_agent(named("other")).sign_cards(signer.clone()))
            .await;
    assert_eq!(signer.0.get(), 0, "nobody has asked for a card");
    let shown = async || {
        let answer = site.rest().fetch(Method::GET, WELL_KNOWN_CARD, String::new()).await;
        answer.json()["documentationUrl"].clone()
    };
    for _ in 0..3 {
        assert_eq!(shown().await, "https://signed.example/1");
    }
    site.service.as_ref().expect("a service").sign_cards_again();
    assert_eq!(signer.0.get(), 1, "nobody has asked for it since");
    assert_eq!(shown().await, "https://signed.example/2");
}

#[tokio::test]
async fn an_agent_may_speak_less_than_its_server() {
    let named = |name: &str| Offer::from(named(name));
    let plain = named("plain")
        .without_binding(ProtocolBinding::Grpc)
        .without_version(Version::V0_3)
        .without_version(Version::V0_1);
    let rest = named("rest").without_binding(ProtocolBinding::JsonRpc);
    let site = run(anonymous().offer(plain).offer(rest)).await;
    let client = |name: &str, wire| Client::new(site, wire).at(&format!("/agents/{name}"));
    let spoken = async |name: &str| {
        let card = Client::new(site, Wire::Rest)
            .fetch(Method::GET, &format!("/agents/{name}{WELL_KNOWN_CARD}"), String::new())
            .await
            .json();
        let listed = card["supportedInterfaces"].as_array().expect("interfaces").clone();
        let pair = |one: &Value| {
            format!(
                "{} {}",
                one["protocolBinding"].as_str().unwrap(),
                one["protocolVersion"].as_str().unwrap()
            )
        };
        listed.iter().map(pair).collect::<Vec<_>>()
    };
    assert_eq!(spoken("plain").await, ["JSONRPC 1.0", "HTTP+JSON 1.0"]);
    assert_eq!(spoken("rest").await, ["HTTP+JSON 1.0", "GRPC 1.0", "HTTP+JSON 0.3"]);
    for wire in WIRES {
        assert_eq!(state(&client("plain", wire).say("hi").await), COMPLETED);
    }
    let old = client("plain", Wire::JsonRpc).without("a2a-version");
    let refused = old.call("message/send", json!({"message": message("hi")})).await.json();
    assert_eq!(refused["error"]["data"][0]["metadata"]["supportedVersions"], "1.0", "{refused}");
    assert_eq!(state(&client("rest", Wire::Rest).say("hi").await), COMPLETED);
    let nothing = client("rest", Wire::JsonRpc).call("SendMessage", json!({"message": message("hi")})).await;
    assert_eq!(nothing.status, 404, "{nothing:?}");
    let none = named("none")
        .without_version(Version::V1_0)
        .without_version(Version::V0_3)
        .without_version(Version::V0_1);
    let error = anonymous().public_url("http://a.example").offer(none).build().expect_err("nothing is left");
    assert!(error.problems[0].contains("`none`"), "{error}");
}
