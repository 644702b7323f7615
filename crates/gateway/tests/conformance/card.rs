//! The agent card: where it is, what it says, and for how long it may be kept.

use std::collections::BTreeSet;

use serde_json::json;

use crate::client::Binding;
use crate::schema;
use crate::server::{EXTENSION, Pass, Server};

const WELL_KNOWN: &str = "/.well-known/agent-card.json";

#[test]
fn the_card_is_complete_and_says_nothing_unknown() {
    for pass in Pass::EACH {
        // Who does not say which version gets a card with the keys of all.
        let response = Server::start(pass).get(WELL_KNOWN, &[("A2A-Version", "1.0".to_owned())]);
        assert_eq!(response.status, 200, "{pass:?}");
        assert_eq!(response.media_type(), "application/json", "{pass:?}");
        schema::check(&schema::AGENT_CARD, &response.json());
    }
}

#[test]
fn the_card_names_an_interface_for_each_binding() {
    let server = Server::start(Pass::All);
    let card = server.card();
    let interfaces = card["supportedInterfaces"].as_array().unwrap();
    let names: BTreeSet<_> =
        interfaces.iter().filter_map(|entry| entry["protocolBinding"].as_str()).collect();
    let mut expected: BTreeSet<_> = Binding::ALL.map(Binding::name).into();
    expected.insert("GRPC");
    assert_eq!(names, expected);
    for interface in interfaces {
        assert!(["1.0", "0.3"].iter().any(|known| interface["protocolVersion"] == *known), "{interface}");
        let url = interface["url"].as_str().unwrap();
        if interface["protocolBinding"] == "GRPC" {
            assert_eq!(url, server.address.to_string());
            continue;
        }
        assert!(url.starts_with(&format!("http://{}", server.address)), "{url}");
    }
}

#[test]
fn the_card_says_what_is_switched_on() {
    for (pass, on) in [(Pass::All, true), (Pass::None, false), (Pass::Extension, true)] {
        let capabilities = &Server::start(pass).card()["capabilities"];
        assert_eq!(capabilities["streaming"], on, "{pass:?}");
        assert_eq!(capabilities["extendedAgentCard"], on, "{pass:?}");
        assert_eq!(capabilities["pushNotifications"], on, "{pass:?}");
        let declared = capabilities["extensions"].as_array().map_or(&[][..], Vec::as_slice);
        let required: Vec<_> = declared.iter().filter(|extension| extension["required"] == true).collect();
        let uris: Vec<_> = required.iter().filter_map(|extension| extension["uri"].as_str()).collect();
        let expected: &[_] = if pass == Pass::Extension { &[EXTENSION] } else { &[] };
        assert_eq!(uris, expected, "{pass:?}");
    }
}

#[test]
fn the_card_may_be_kept_for_a_while() {
    let response = Server::start(Pass::All).get(WELL_KNOWN, &[]);
    let cache_control = response.header("cache-control").expect("Cache-Control");
    let max_age = cache_control.split(", ").find_map(|directive| directive.strip_prefix("max-age="));
    assert!(max_age.and_then(|age| age.parse().ok()).is_some_and(|age: u32| age > 0), "{cache_control}");
    let etag = response.header("etag").expect("ETag");
    assert!(etag.len() > 2 && etag.starts_with('"') && etag.ends_with('"'), "{etag}");
    let modified = response.header("last-modified").expect("Last-Modified");
    assert!(modified.len() == 29 && modified.ends_with(" GMT"), "{modified}");
}

#[test]
fn a_card_that_is_still_the_same_is_not_sent_again() {
    let server = Server::start(Pass::All);
    let first = server.get(WELL_KNOWN, &[]);
    for (condition, validator) in [("If-None-Match", "etag"), ("If-Modified-Since", "last-modified")] {
        let value = first.header(validator).unwrap().to_owned();
        let again = server.get(WELL_KNOWN, &[(condition, value)]);
        assert_eq!(again.status, 304, "{condition}");
        assert_eq!(again.header("etag"), first.header("etag"), "{condition}");
        assert_eq!(again.text(), "", "{condition}");
    }
    let other = server.get(WELL_KNOWN, &[("If-None-Match", "\"other\"".to_owned())]);
    assert_eq!(other.status, 200);
}

#[test]
fn the_extended_card_is_a_card_that_says_more() {
    let server = Server::start(Pass::All);
    for client in server.clients() {
        let extended = client.call("GetExtendedAgentCard", &json!({}));
        schema::check(&schema::AGENT_CARD, &extended);
        assert_ne!(extended, server.card(), "{:?}", client.binding);
        assert_eq!(extended["supportedInterfaces"], server.card()["supportedInterfaces"]);
    }
}
