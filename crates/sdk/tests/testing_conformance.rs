//! `testing::Conformance`: our own agents pass, and agents that are wrong in one way are found out.
#![cfg(feature = "testing")]

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use chancery_sdk::protocol::SecurityScheme;
use chancery_sdk::testing::{Conformance, Heard, Level, Peer, Reply, Report, Spawn, Verdict, spawn};
use chancery_sdk::{
    Agent, AgentExtension, AgentSpec, Error, ErrorCode, Failure, Message, Outcome, Principal, Turn, agent_fn,
};
use http::request::Parts;

fn echo() -> AgentSpec {
    AgentSpec::new("echo", agent_fn(|message: Message| async move { message.text().into_owned() }))
}

/// Never has enough.
struct Asker;

impl Agent for Asker {
    async fn run(&self, turn: Turn) -> Result<Outcome, Failure> {
        Ok(turn.ask("And what else?"))
    }
}

/// Answers without a task.
struct Direct;

impl Agent for Direct {
    async fn run(&self, _: Turn) -> Result<Outcome, Failure> {
        Ok(Outcome::reply("at once"))
    }

    fn opens_task(&self, _: &Message) -> bool {
        false
    }
}

/// Says much, and then fails.
struct Unlucky;

impl Agent for Unlucky {
    async fn run(&self, turn: Turn) -> Result<Outcome, Failure> {
        turn.working("on it").await?;
        let mut chunks = turn.begin_artifact("chunks");
        for _ in 0..100 {
            chunks.append("chunk ").await?;
        }
        Err(Failure::public("there was no more"))
    }
}

/// The checks that did not pass, by what became of them.
fn ids(report: &Report, wanted: fn(&Verdict) -> bool) -> BTreeSet<&'static str> {
    report.checks.iter().filter(|checked| wanted(&checked.verdict)).map(|checked| checked.id).collect()
}

fn failed(report: &Report) -> BTreeSet<&'static str> {
    ids(report, |verdict| matches!(verdict, Verdict::Failed(_)))
}

fn skipped(report: &Report) -> BTreeSet<&'static str> {
    ids(report, |verdict| matches!(verdict, Verdict::Skipped(_)))
}

async fn check(spec: AgentSpec) -> Report {
    let agent = spawn(spec).await;
    Conformance::against(agent.url()).run().await
}

#[tokio::test]
async fn our_agents_conform() {
    let specs = [
        echo(),
        AgentSpec::new("asker", Asker),
        AgentSpec::new("direct", Direct),
        AgentSpec::new("unlucky", Unlucky),
        echo().streaming(false),
        echo().push_notifications(false),
        AgentSpec::new("asker", Asker).streaming(false),
        echo().extension(AgentExtension::new("urn:example:needed").required()),
    ];
    for spec in specs {
        let name = format!("{spec:?}");
        let report = check(spec).await;
        assert_eq!(report.failures(Level::Should).count(), 0, "{name}: {report}");
        report.assert();
    }
}

#[tokio::test]
async fn checks_go_by_what_the_agent_does() {
    let of = |report: &Report, id: &str| skipped(report).contains(id);
    let report = check(echo()).await;
    let unneeded = [
        "extension.required",
        "jsonrpc.id",
        "push.refused",
        "stream.refused",
        "task.hidden",
        "task.other-context",
        "version.absent",
    ];
    assert_eq!(skipped(&report), BTreeSet::from(unneeded), "{report}");
    assert_eq!(report.checks.iter().filter(|checked| checked.id == "list.pages").count(), 2, "{report}");

    let quiet = check(echo().streaming(false)).await;
    assert!(of(&quiet, "stream.order") && !of(&quiet, "stream.refused"), "{quiet}");
    let asker = check(AgentSpec::new("asker", Asker)).await;
    assert!(of(&asker, "task.over") && !of(&asker, "task.other-context"), "{asker}");
    let direct = check(AgentSpec::new("direct", Direct)).await;
    assert!(of(&direct, "task.get") && !of(&direct, "stream.order"), "{direct}");
}

#[tokio::test]
async fn callers_are_told_apart() {
    let authenticate = |head: &Parts| -> Result<Principal, Error> {
        let name = head.headers.get("authorization").and_then(|value| value.to_str().ok());
        Ok(Principal::new("all", name.ok_or(ErrorCode::Unauthenticated)?))
    };
    let agent = Spawn::new(echo())
        .server(move |server| {
            server.authenticate(authenticate).security_scheme("bearer", SecurityScheme::bearer())
        })
        .spawn()
        .await
        .expect("a server");
    let run = |other: &'static str| {
        let run = Conformance::against(agent.url()).header("authorization", "Bearer ada");
        run.other_caller("authorization", other).run()
    };
    let report = run("Bearer bob").await;
    assert!(failed(&report).is_empty() && !skipped(&report).contains("task.hidden"), "{report}");
    // Who is told that somebody else is the same caller finds the tasks.
    assert_eq!(failed(&run("Bearer ada").await), BTreeSet::from(["task.hidden"]));
}

// === agents that are wrong in one way ===

/// What an agent said.
struct Said {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
}

type Before = fn(&mut Heard);
type After = fn(&Heard, &mut Said);

/// Asks a good agent, over a connection of its own.
fn relay(target: SocketAddr, heard: &Heard) -> Said {
    let mut stream = TcpStream::connect(target).expect("the good agent");
    let mut request =
        format!("{} {} HTTP/1.1\r\nhost: {target}\r\nconnection: close\r\n", heard.method, heard.path);
    let skip = ["host", "connection", "content-length", "transfer-encoding"];
    for (name, value) in heard.headers.iter().filter(|(name, _)| !skip.contains(&name.as_str())) {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    request.push_str(&format!("content-length: {}\r\n\r\n{}", heard.body.len(), heard.body));
    stream.write_all(request.as_bytes()).expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).expect("a status");
    let headers: Vec<_> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let chunked = headers.iter().any(|(name, _)| name == "transfer-encoding");
    Said { status, headers, body: if chunked { unchunked(body) } else { body.to_owned() } }
}

fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).expect("a size");
        whole.push_str(&rest[..size]);
        body = &rest[size + 2..];
    }
    whole
}

/// An agent like the good one, except for this.
fn spoil(target: SocketAddr, before: Before, after: After) -> Peer {
    let play = move |heard: &Heard| {
        let mut heard = heard.clone();
        before(&mut heard);
        let mut said = relay(target, &heard);
        let own = format!("http://{}", heard.header("host").expect("a host"));
        said.body = said.body.replace(&format!("http://{target}"), &own);
        after(&heard, &mut said);
        let skip = ["content-length", "transfer-encoding", "connection"];
        let headers = said.headers.iter().filter(|(name, _)| !skip.contains(&name.as_str()));
        headers.fold(Reply::status(said.status).body(said.body), |reply, (name, value)| {
            reply.header(name, value)
        })
    };
    Peer::script().answer_with(play).start().expect("a port")
}

fn same(_: &mut Heard) {}

fn as_is(_: &Heard, _: &mut Said) {}

fn set_header(heard: &mut Heard, name: &str, value: &str) {
    heard.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
    heard.headers.push((name.to_owned(), value.to_owned()));
}

fn no_skills(heard: &Heard, said: &mut Said) {
    if heard.is_card() {
        said.body = said.body.replace("\"skills\"", "\"talents\"");
    }
}

fn no_cache(_: &Heard, said: &mut Said) {
    said.headers.retain(|(name, _)| !["etag", "cache-control"].contains(&name.as_str()));
}

fn any_version(heard: &mut Heard) {
    set_header(heard, "a2a-version", "1.0");
}

fn any_media_type(heard: &mut Heard) {
    set_header(heard, "content-type", "application/json");
}

fn one_id(_: &Heard, said: &mut Said) {
    for id in ["null", "0", "\"a text\"", "9007199254740991"] {
        said.body = said.body.replace(&format!("\"id\":{id}"), "\"id\":7");
    }
}

fn warm_guess(_: &Heard, said: &mut Said) {
    said.body = said.body.replace("c0ffee000002", "c0ffee000002 (warm)");
}

fn always_artifacts(heard: &mut Heard) {
    if heard.body.contains("\"ListTasks\"") {
        heard.body = heard.body.replace("\"includeArtifacts\":false", "\"includeArtifacts\":true");
        heard.body = heard
            .body
            .replace("\"params\":{\"contextId\"", "\"params\":{\"includeArtifacts\":true,\"contextId\"");
    }
    heard.path = heard.path.replace("includeArtifacts=false", "includeArtifacts=true");
}

fn always_first_page(heard: &mut Heard) {
    if !heard.body.contains("no-token") && !heard.path.contains("no%2Dtoken") {
        heard.body = heard.body.replace("\"pageToken\"", "\"noToken\"");
        heard.path = heard.path.replace("pageToken=", "noToken=");
    }
}

fn no_last_event(_: &Heard, said: &mut Said) {
    if said.headers.iter().any(|(_, value)| value == "text/event-stream") {
        let frames: Vec<_> = said.body.split_inclusive("\n\n").collect();
        said.body = frames[..frames.len() - 1].concat();
    }
}

fn floats(_: &Heard, said: &mut Said) {
    said.body = said.body.replace("9007199254740993", "9007199254740992.0");
}

fn internal_errors(_: &Heard, said: &mut Said) {
    for (code, reason) in [("-32004", "UNSUPPORTED_OPERATION"), ("-32002", "TASK_NOT_CANCELABLE")] {
        said.body = said.body.replace(code, "-32603").replace(reason, "INTERNAL");
    }
}

/// What is wrong, how, and which checks see it.
type Wrong = (&'static str, Before, After, &'static [&'static str]);

static WRONGS: [Wrong; 12] = [
    ("nothing", same, as_is, &[]),
    ("the card has no skills", same, no_skills, &["card.complete"]),
    ("the card cannot be kept", same, no_cache, &["card.kept"]),
    ("every version is served", any_version, as_is, &["version.unknown"]),
    ("every answer has the same id", same, one_id, &["error.malformed", "jsonrpc.id"]),
    ("a media type makes no difference", any_media_type, as_is, &["error.media-type"]),
    ("a close guess is told so", same, warm_guess, &["error.alike"]),
    ("artifacts are always listed", always_artifacts, as_is, &["list.artifacts"]),
    ("every page is the first", always_first_page, as_is, &["list.pages"]),
    ("the last event of a stream is missing", same, no_last_event, &["stream.kept", "stream.order"]),
    ("numbers are kept as floats", same, floats, &["metadata.large-numbers"]),
    (
        "what is over fails inside",
        same,
        internal_errors,
        &["card.extended", "stream.over", "task.cancel", "task.cancel-over", "task.over"],
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_is_wrong_in_one_way_is_found_out() {
    let good = spawn(echo()).await;
    for (wrong, before, after, expected) in WRONGS {
        let peer = spoil(good.address(), before, after);
        let report = Conformance::against(peer.url()).patience(Duration::from_secs(10)).run().await;
        assert_eq!(failed(&report), expected.iter().copied().collect(), "{wrong}: {report}");
    }
}

#[tokio::test]
async fn an_agent_that_is_none_fails_at_the_card() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let nobody = format!("http://{}", listener.local_addr().expect("an address"));
    drop(listener);
    let page = Peer::script().answer(Reply::status(200).body("It works!")).start().expect("a port");
    let silent = Peer::script().answer(Reply::silence()).start().expect("a port");
    for url in [nobody.as_str(), page.url(), silent.url(), "no URL"] {
        let report = Conformance::against(url).patience(Duration::from_millis(300)).run().await;
        assert_eq!(failed(&report), BTreeSet::from(["card.found"]), "{report}");
        assert!(!report.is_conformant());
    }
    let report = Conformance::against(page.url()).header("no name", "x").run().await;
    let told = std::panic::catch_unwind(|| report.assert()).expect_err("a panic");
    let told = told.downcast_ref::<String>().expect("a text");
    assert!(
        told.contains("does not conform") && told.contains("`no name` and its value are no header"),
        "{told}"
    );
}

#[tokio::test]
async fn a_report_is_a_table() {
    let report = check(echo().streaming(false)).await;
    let table = report.to_string();
    let lines: Vec<_> = table.lines().collect();
    assert_eq!(lines[0], report.url);
    assert!(lines[1].starts_with("passed   card       card.found "), "{table}");
    let last = lines.last().expect("a last line");
    assert!(last.contains(" passed, 0 failed, ") && last.ends_with(" skipped"), "{table}");
    assert!(lines.contains(&"         the card declares no streams"), "{table}");
}
