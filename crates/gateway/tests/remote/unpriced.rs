//! Where money is limited, an agent without a price is a problem that is told with the two ways out. No figure is made up.

use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use crate::agents::{Hostile, SPOKEN, section};
use crate::caller::Caller;
use crate::gateway::{Gateway, chancery};
use crate::judge;
use crate::records::settled;

const LIMITED: &str = "[budget.global]\nmax_usd_per_day = 1.0\n";

fn written(config: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("chancery.toml"), config).expect("it is written");
    folder
}

fn check(config: &str) -> Output {
    chancery(written(config).path()).arg("check").output().expect("it runs")
}

/// What `serve` complains of before it ends; it is killed if it does not end.
fn refused_to_serve(config: &str) -> Option<String> {
    let folder = written(config);
    let mut command: Command = chancery(folder.path());
    command.env("CHANCERY__SERVER__ANONYMOUS", "true");
    command.args(["serve", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    // It says where it is, or it ends.
    let mut line = String::new();
    let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut stdout, &mut line).expect("it says something or nothing");
    let _ = child.kill();
    let output = child.wait_with_output().expect("it is over");
    line.is_empty().then(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_without_a_price_under_a_limit_is_told_with_two_ways_out() {
    let hostile = Hostile::start().await;
    let far = section("far", &hostile.url(SPOKEN[0], "-"), "");
    let config = format!("{LIMITED}{far}");
    let checked = check(&config);
    let told = String::from_utf8_lossy(&checked.stderr).into_owned();
    let mut wrong = Vec::new();
    for (command, told) in
        [("check", Some(told).filter(|_| !checked.status.success())), ("serve", refused_to_serve(&config))]
    {
        let told = told.unwrap_or_default();
        for word in ["far", "price", "unknown_cost"] {
            if !told.contains(word) {
                wrong.push(format!("`{command}` does not say `{word}`: {told}"));
            }
        }
    }
    for way_out in [
        format!("{LIMITED}{far}price = {{ per_call = 0.0 }}\n"),
        format!("[budget]\nunknown_cost = \"deny\"\n{LIMITED}{far}"),
        format!("[budget]\nunknown_cost = \"hold:0.02\"\n{LIMITED}{far}"),
        far.clone(),
    ] {
        let checked = check(&way_out);
        if !checked.status.success() {
            wrong.push(format!("{way_out}{}", String::from_utf8_lossy(&checked.stderr)));
        }
    }
    for old in ["\"allow-and-flag\"", "{ usd = 0.02 }"] {
        let checked = check(&format!("[budget]\nunknown_cost = {old}\n{LIMITED}{far}"));
        let told = String::from_utf8_lossy(&checked.stderr).into_owned();
        if checked.status.success() || !told.contains("hold:") || !told.contains("deny") {
            wrong.push(format!("the old word {old}: {told}"));
        }
    }
    judge(&wrong);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ways_out_do_what_they_say() {
    let hostile = Hostile::start().await;
    let far = section("far", &hostile.url(SPOKEN[0], "-"), "");
    let deny = Gateway::start(&format!("[budget]\nunknown_cost = \"deny\"\n{LIMITED}{far}"));
    let told = Caller::new(&deny, "far").send("echo").await;
    assert!(told.says("COST_UNKNOWN"), "{told:?}");
    let hold = Gateway::start(&format!(
        "[budget]\nunknown_cost = \"hold:0.30\"\n{LIMITED}[budget.agent]\nmax_usd_per_day = 0.5\n{far}"
    ));
    let caller = Caller::new(&hold, "far");
    let waiting = caller.send_beside("late gate");
    crate::until("it works", || hostile.of(SPOKEN[0]).count("late gate") == 1).await;
    assert!(caller.send("echo").await.is_refused(), "what is held does not fit in twice");
    hostile.open("gate").await;
    assert_eq!(waiting.await.unwrap().unwrap().state(), "TASK_STATE_COMPLETED");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_charged_that_nobody_declared_counted_or_reported() {
    let hostile = Hostile::start().await;
    let gateway = Gateway::start(&format!(
        "[budget.caller]\nmax_tasks_per_minute = 1000\nmax_tokens_per_day = 1000000\n{}",
        hostile.sections("far", "-", "")
    ));
    let mut wrong = Vec::new();
    for spoken in SPOKEN {
        for text in ["echo", "message", "error", "cut"] {
            Caller::new(&gateway, spoken.name("far")).send(text).await;
        }
        for row in settled(&gateway, &spoken.name("far"), 4).await {
            if (row.charged(), row.at("tokens")) != (0, "0") {
                wrong.push(format!("{row:?}"));
            }
        }
    }
    judge(&wrong);
}
