//! Keys as an operator has them: made where the gateway looks, good at once, listed with what they are for.

use crate::gateway::{Gateway, chancery, folder};
use crate::http::get;
use crate::{ECHO, V1, started};

#[tokio::test]
async fn a_new_key_works_at_once() {
    let gateway = Gateway::start_with_key(ECHO, "alice");
    let url = format!("{}/tasks/none", gateway.agent("echo"));
    for caller in ["bob", "carol", "dave"] {
        let key = gateway.run(&["key", "create", "--caller", caller]);
        assert_eq!(get(&url, &[V1, ("x-api-key", key.trim())]).await.status, 404, "{caller} is let in");
    }
}

#[tokio::test]
async fn a_list_of_keys_says_what_they_are_for_and_when_they_were_used() {
    let mut gateway = Gateway::start_with_key(ECHO, "alice");
    gateway
        .run(&["key", "create", "--caller", "worker", "--group", "ops", "--group", "eu", "--agent", "echo"]);
    let listed = gateway.run(&["key", "list"]);
    let line_of = |listed: &str, caller: &str| {
        let line = listed.lines().find(|line| line.contains(&format!("default/{caller} ")));
        line.unwrap_or_else(|| panic!("{listed}")).to_owned()
    };
    let worker = line_of(&listed, "worker");
    assert!(worker.contains("groups ops,eu") && worker.contains("agent echo"), "{worker}");
    assert!(line_of(&listed, "alice").ends_with("last used never"), "{listed}");
    let url = format!("{}/tasks/none", gateway.agent("echo"));
    let key = gateway.key.clone().expect("it was made");
    assert_eq!(get(&url, &[V1, ("x-api-key", &key)]).await.status, 404);
    gateway.terminate();
    let listed = gateway.run(&["key", "list"]);
    assert!(!line_of(&listed, "alice").ends_with("last used never"), "{listed}");
    assert!(line_of(&listed, "worker").ends_with("last used never"), "{listed}");
}

#[test]
fn a_key_for_the_anonymous_caller_is_refused_when_it_is_made() {
    let folder = folder(ECHO);
    for realm in ["default", "other"] {
        let ran = chancery(folder.path())
            .args(["key", "create", "--caller", "anonymous", "--realm", realm])
            .output()
            .expect("it runs");
        let said = String::from_utf8(ran.stderr).expect("it prints text");
        assert!(!ran.status.success() && said.contains("the caller name `anonymous` is reserved"), "{said}");
        assert!(ran.stdout.is_empty(), "no key is shown");
    }
    assert!(!folder.path().join("chancery-data/keys.json").exists());
}

#[test]
fn a_key_for_an_agent_that_cannot_be_is_refused_when_it_is_made() {
    let folder = folder(ECHO);
    for agent in ["anonymous", "agents", "tasks", "No Name", ""] {
        let ran = chancery(folder.path())
            .args(["key", "create", "--caller", "worker", "--agent", agent])
            .output()
            .expect("it runs");
        let said = String::from_utf8(ran.stderr).expect("it prints text");
        assert!(!ran.status.success() && said.contains("no agent can have this name"), "{agent}: {said}");
        assert!(ran.stdout.is_empty(), "no key is shown");
    }
    assert!(!folder.path().join("chancery-data/keys.json").exists());
}

#[test]
fn names_that_nobody_can_have_are_refused_when_they_are_given() {
    let id = "0".repeat(64);
    let long = "x".repeat(257);
    for (name, why) in [
        ("", "cannot be empty"),
        ("a\nb", "has no control characters"),
        ("a\u{1b}[2J", "has no control characters"),
        (long.as_str(), "has at most 256 bytes"),
    ] {
        for flags in [
            ["--caller", name, "--realm", "r"],
            ["--caller", "a", "--realm", name],
            ["--caller", "a", "--group", name],
        ] {
            let folder = folder(ECHO);
            let made = chancery(folder.path()).args(["key", "create"]).args(flags).output().expect("it runs");
            let said = String::from_utf8(made.stderr).expect("it prints text");
            assert!(!made.status.success() && said.contains(why), "{flags:?}: {said}");
            assert!(made.stdout.is_empty(), "no key is shown");
            assert!(!folder.path().join("chancery-data/keys.json").exists());
        }
        for (agent, realm, group) in [(name, "r", "g"), ("a", name, "g"), ("a", "r", name)] {
            let known = format!(
                "[[identity.agent]]\nname = {agent:?}\nid = \"{id}\"\nrealm = {realm:?}\ngroups = [{group:?}]\n"
            );
            let folder = folder(&format!("{}{ECHO}", known.replace("\\u{1b}", "\\u001b")));
            let ran = chancery(folder.path()).arg("check").output().expect("it runs");
            let said = String::from_utf8(ran.stderr).expect("it prints text");
            assert!(!ran.status.success() && said.contains(why), "{known}: {said}");
        }
    }
}

#[test]
fn no_agent_of_the_configuration_has_a_reserved_name() {
    for name in ["anonymous", "agents", "livez", "fleet"] {
        for kind in ["inbox", "command", "a2a", "model"] {
            let config = format!("[[agent]]\nname = \"{name}\"\nkind = \"{kind}\"\n");
            let folder = folder(&config);
            let ran = chancery(folder.path()).arg("check").output().expect("it runs");
            let said = String::from_utf8(ran.stderr).expect("it prints text");
            assert!(said.contains(&format!("`{name}` is reserved")), "{kind}: {said}");
        }
    }
}

#[tokio::test]
async fn keys_admin_and_store_are_where_the_configuration_says() {
    let config = format!("[store]\ndata = \"elsewhere\"\n{ECHO}");
    let folder = folder("this = \"is not read\"");
    std::fs::write(folder.path().join("gateway.toml"), config).expect("it is written");
    let run = |arguments: &[&str]| {
        let ran = chancery(folder.path())
            .args(arguments)
            .args(["--config", "gateway.toml"])
            .output()
            .expect("it runs");
        assert!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).expect("it prints text")
    };
    let key = run(&["key", "create", "--caller", "alice"]).trim().to_owned();
    assert!(folder.path().join("elsewhere/keys.json").exists());
    assert!(!folder.path().join("chancery-data").exists());
    let mut command = chancery(folder.path());
    command.args(["serve", "--config", "gateway.toml", "--listen", "127.0.0.1:0"]);
    let (_running, url) = started(command);
    let url = format!("{url}/agents/echo/tasks/none");
    assert_eq!(get(&url, &[V1, ("x-api-key", &key)]).await.status, 404);
    assert!(run(&["admin", "agents"]).contains("echo"));
    assert!(run(&["store", "check"]).contains("0 tasks"));
    assert!(run(&["key", "list"]).contains("default/alice"));
    // A mistake elsewhere in the file keeps nobody from cutting somebody off.
    let broken = format!("[store]\ndata = \"elsewhere\"\n[budget]\nno_such = 1\n{ECHO}");
    std::fs::write(folder.path().join("gateway.toml"), broken).expect("it is written");
    run(&["admin", "contain", "echo", "--reason", "test"]);
    let id = key.split('_').nth(1).expect("an id").to_owned();
    run(&["key", "revoke", &id]);
}
