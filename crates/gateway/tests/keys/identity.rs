//! Who is not let in is told how to come in.

use super::gateway::{ECHO, Gateway, ask};

#[tokio::test]
async fn who_is_not_let_in_is_told_what_is_wrong_with_what_it_showed() {
    let gateway = Gateway::start_after(ECHO, &[&["key", "create", "--caller", "alice"]]);
    let url = format!("{}/tasks/none", gateway.agent("echo"));
    let cases = [
        ("", "Bearer"),
        ("Authorization: Bearer chk_none_none\r\n", r#"Bearer error="invalid_token""#),
        ("X-API-Key: a\r\nAuthorization: Bearer b\r\n", r#"Bearer error="invalid_request""#),
        ("X-API-Key: a\r\nX-API-Key: b\r\n", r#"Bearer error="invalid_request""#),
    ];
    for (headers, challenge) in cases {
        let (head, _) = ask(&url, headers).await;
        assert!(head.starts_with("HTTP/1.1 401"), "{headers:?}: {head}");
        let said = head.lines().find_map(|line| line.strip_prefix("www-authenticate: "));
        assert_eq!(said, Some(challenge), "{headers:?}");
    }
}
