//! Where gRPC is served, and where it is not.

use chancery_sdk::protocol::ProtocolBinding;
use chancery_sdk::{Client, ErrorCode, Server, ServerBuilder};
use serde_json::{Value, json};

use crate::caller::Caller;
use crate::support::*;

fn grpc_of(card: &Value) -> Option<&Value> {
    let interfaces = card["supportedInterfaces"].as_array().expect("interfaces");
    interfaces.iter().find(|interface| interface["protocolBinding"] == "GRPC")
}

async fn card(site: &Site, path: &str) -> Value {
    site.jsonrpc().fetch(http::Method::GET, path, String::new()).await.json()
}

#[tokio::test]
async fn the_cards_name_place_and_tenant() {
    let site = serve_with(|server| server.agent(echo()).fleet_agent(other())).await;
    let place = site.address.to_string();
    let root = card(&site, "/.well-known/agent-card.json").await;
    let expected = json!({"url": place, "protocolBinding": "GRPC", "protocolVersion": "1.0"});
    assert_eq!(grpc_of(&root), Some(&expected));
    let fleet = card(&site, "/agents/other/.well-known/agent-card.json").await;
    assert_eq!(grpc_of(&fleet).expect("gRPC")["tenant"], "other");
    let url = format!("http://{place}/agents/other");
    let client = Client::builder().prefer([ProtocolBinding::Grpc]).connect(url).await.expect("an agent");
    assert_eq!(client.send("x").await.expect("an answer").text(), "other");
}

fn other() -> chancery_sdk::AgentSpec {
    let agent = script(|_| async { Ok(chancery_sdk::Outcome::text("other")) });
    chancery_sdk::AgentSpec::new("other", agent)
}

#[tokio::test]
async fn grpc_may_have_a_port_of_its_own() {
    let own = "127.0.0.1:0".parse().expect("an address");
    let server =
        Server::builder().agent(echo()).grpc_listen(own).bind("127.0.0.1:0").await.expect("it binds");
    let (both, own) = (server.local_addr().expect("an address"), server.grpc_addr().expect("another"));
    let url = server.url().to_owned();
    tokio::spawn(server.run_until(std::future::pending()));
    for address in [both, own] {
        let task = Caller::at(address).say("x").await;
        assert_eq!(task["status"]["state"], COMPLETED);
    }
    let client = Client::builder().prefer([ProtocolBinding::Grpc]).egress(anywhere()).connect(url).await;
    let client = client.expect("an agent");
    let interfaces = &client.card().await.expect("a card").supported_interfaces;
    assert_eq!(interfaces[2].url, own.to_string());
    assert_eq!(client.send("x").await.expect("an answer").text(), "x");
}

fn anywhere() -> chancery_sdk::egress::Egress {
    chancery_sdk::egress::Egress::default().allow("127.0.0.0/8".parse().expect("a network"))
}

#[tokio::test]
async fn grpc_can_be_switched_off() {
    let site = serve_with(|server| server.agent(echo()).without_binding(ProtocolBinding::Grpc)).await;
    assert_eq!(grpc_of(&card(&site, "/.well-known/agent-card.json").await), None);
    let refused = Caller::new(&site).call("GetTask", json!({"id": "t"})).await;
    refused.refused(ErrorCode::VersionNotSupported);
}

#[tokio::test]
async fn a_place_that_nobody_could_call_is_not_named() {
    let named = |build: fn(ServerBuilder) -> ServerBuilder| async move {
        let site = serve_with(|server| build(server.agent(echo()))).await;
        let card = card(&site, "/.well-known/agent-card.json").await;
        grpc_of(&card).map(|grpc| grpc["url"].as_str().expect("a place").to_owned())
    };
    assert_eq!(
        named(|server| server.public_url("https://a.example")).await.as_deref(),
        Some("a.example:443")
    );
    assert_eq!(
        named(|server| server.public_url("http://a.example:8080")).await.as_deref(),
        Some("a.example:8080")
    );
    assert_eq!(named(|server| server.public_url("https://a.example/path")).await, None);
    let public = named(|server| server.public_url("https://a.example/path").grpc_public("b.example:50051"));
    assert_eq!(public.await.as_deref(), Some("b.example:50051"));
    let wrong = Server::builder().agent(echo()).grpc_public("https://b.example").bind("127.0.0.1:0").await;
    assert!(wrong.expect_err("no place").to_string().contains("no `host:port`"));
    let open = "0.0.0.0:0".parse().expect("an address");
    let wrong = Server::builder().agent(echo()).grpc_listen(open).bind("127.0.0.1:0").await;
    assert!(wrong.expect_err("too open").to_string().contains("nobody is authenticated"));
}
