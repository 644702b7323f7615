//! `testing::Peer` and `testing::HOSTILE`: the bytes that peers send, and what our own client makes of them.
#![cfg(feature = "testing")]

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use chancery_sdk::protocol::ProtocolBinding;
use chancery_sdk::testing::{Exchange, HOSTILE, Hostile, Must, Peer, Reply};
use chancery_sdk::{Client, ClientError, ErrorCode};
use futures_util::StreamExt;
use futures_util::stream;
use serde_json::json;

const BINDINGS: [ProtocolBinding; 2] = [ProtocolBinding::JsonRpc, ProtocolBinding::HttpJson];

async fn meet(hostile: &Hostile, url: &str) -> Result<(), ClientError> {
    let limit = Duration::from_secs(3);
    let client = Client::builder()
        .request_timeout(limit)
        .stream_idle_timeout(limit)
        .stream_resumes(2)
        .retries(1)
        .connect(url)
        .await?;
    if hostile.exchange == Exchange::Get {
        client.get("t").await?;
        return Ok(());
    }
    let mut events = client.stream("hello").await?;
    while let Some(event) = events.next().await {
        event?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_client_takes_every_hostile_peer_as_it_must() {
    let pairs = BINDINGS.iter().flat_map(|binding| HOSTILE.iter().map(move |hostile| (hostile, binding)));
    let tried = stream::iter(pairs).map(|(hostile, binding)| async move {
        let judged = hostile.try_out(binding, async |url| meet(hostile, url).await).await;
        judged.map_err(|wrong| format!("{binding}: {wrong}"))
    });
    let wrong: Vec<_> = tried.buffer_unordered(16).filter_map(async |tried| tried.err()).collect().await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn a_client_that_takes_everything_is_found_out() {
    for hostile in HOSTILE {
        let judged = hostile.try_out(&ProtocolBinding::JsonRpc, async |_| Ok::<_, String>(())).await;
        assert_eq!(judged.is_err(), hostile.must == Must::Fail, "{}", hostile.name);
        let judged = hostile.try_out(&ProtocolBinding::JsonRpc, async |_| Err("no")).await;
        assert_eq!(judged.is_err(), hostile.must == Must::Succeed, "{}", hostile.name);
    }
}

#[test]
fn every_hostile_peer_has_a_name_and_a_story() {
    let names: BTreeSet<_> = HOSTILE.iter().map(|hostile| hostile.name).collect();
    assert_eq!(names.len(), HOSTILE.len());
    for hostile in HOSTILE {
        assert!(hostile.story.ends_with('.'), "{}", hostile.name);
        assert!(hostile.speaks(&ProtocolBinding::JsonRpc), "{}", hostile.name);
    }
}

/// What a peer says to a bare request, until it closes the connection.
fn said(reply: Reply) -> Vec<u8> {
    let peer = Peer::script().answer(reply).start().expect("a port");
    let mut stream = TcpStream::connect(peer.url().trim_start_matches("http://")).expect("a connection");
    stream.write_all(b"GET / HTTP/1.1\r\nconnection: close\r\n\r\n").expect("a request");
    // A connection that has been reset already cannot be shut down any more.
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    let ended = stream.read_to_end(&mut answer);
    if let Err(error) = ended {
        answer.extend_from_slice(format!("({:?})", error.kind()).as_bytes());
    }
    answer
}

#[test]
fn the_bytes_are_the_ones_that_the_script_says() {
    let text = |reply| String::from_utf8(said(reply)).expect("a text");
    let head = "HTTP/1.1 200 As told\r\n";
    let body = || Reply::status(200).body("12345");
    assert_eq!(text(body()), format!("{head}content-length: 5\r\n\r\n12345"));
    assert_eq!(text(body().cut_after(2)), format!("{head}content-length: 5\r\n\r\n12"));
    assert_eq!(text(body().content_length(9)), format!("{head}content-length: 9\r\n\r\n12345"));
    assert_eq!(
        text(body().chunked()),
        format!("{head}transfer-encoding: chunked\r\n\r\n5\r\n12345\r\n0\r\n\r\n")
    );
    assert_eq!(
        text(body().chunked().cut_after(3)),
        format!("{head}transfer-encoding: chunked\r\n\r\n5\r\n123")
    );
    assert_eq!(text(body().until_close()), format!("{head}connection: close\r\n\r\n12345"));
    let drip = body().header("a", "1").header("A", "2").drip(1, Duration::from_millis(1));
    assert_eq!(text(drip), format!("{head}A: 2\r\ncontent-length: 5\r\n\r\n12345"));
    assert_eq!(text(Reply::raw("no HTTP")), "no HTTP");
    assert_eq!(text(Reply::close()), "");
    assert_eq!(text(Reply::reset()), "(ConnectionReset)");
}

#[tokio::test]
async fn requests_are_remembered_as_they_came() {
    let peer = Peer::script()
        .card(ProtocolBinding::HttpJson)
        .answer_with(|heard| heard.error(ErrorCode::TaskNotFound))
        .answer_with(|heard| heard.result(&json!({"id": "t", "status": {"state": "TASK_STATE_WORKING"}})))
        .start()
        .expect("a port");
    let client = Client::builder().bearer("s3cret").connect(peer.url()).await.expect("the card");
    assert_eq!(client.get("t 1").await.expect_err("an error").code(), Some(ErrorCode::TaskNotFound));
    for _ in 0..2 {
        client.cancel("t").await.expect("the last answer is repeated");
    }
    let [get, cancel, again] = &peer.calls()[..] else { panic!("three calls: {:?}", peer.calls()) };
    assert_eq!((get.method.as_str(), get.path.as_str(), get.body.as_str()), ("GET", "/tasks/t%201", ""));
    assert_eq!((cancel.method.as_str(), cancel.path.as_str()), ("POST", "/tasks/t:cancel"));
    assert_eq!((again.header("Authorization"), again.header("x-none")), (Some("Bearer s3cret"), None));
    assert!(peer.heard()[0].is_card() && peer.heard().len() == 4);
}

#[test]
fn a_script_that_panics_fails_the_test() {
    let dropped = std::panic::catch_unwind(|| {
        let peer = Peer::script().answer_with(|_| panic!("that was not expected")).start().expect("a port");
        let mut stream = TcpStream::connect(peer.url().trim_start_matches("http://")).expect("a connection");
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("a request");
        assert_eq!(stream.read(&mut [0; 10]).expect("the end"), 0);
    });
    let panic = dropped.expect_err("a panic");
    let text = panic.downcast_ref::<String>().expect("a text");
    assert!(text.contains("that was not expected"), "{text}");
}
