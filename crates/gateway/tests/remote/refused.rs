//! A caller on the SDK for Python reads why a gate has refused it. That SDK shows of an answer with 4xx nothing but the number.

use crate::gateway::Gateway;
use crate::process::Program;
use crate::scenario::Outcome;

const CALLER: Program = Program::Python { environment: "1.0", script: "refused.py" };
const ECHO: &str = "[[agent]]\nname = \"echo\"\nkind = \"builtin\"\n";

async fn reads(gateway: &Gateway, reason: &str) -> Outcome {
    CALLER.try_one(&["--url", &gateway.agent("echo"), "--reason", reason]).await
}

#[tokio::test]
async fn a_caller_on_another_sdk_reads_why_it_is_refused() {
    let refusals = [
        (
            "[budget.caller]\nmax_tasks_per_minute = 0\n",
            "BUDGET_EXCEEDED, limit 0 tasks per minute for caller `anonymous`",
        ),
        ("[policy.default]\nallowed_skills = [\"other\"]\n", "SKILL_NOT_ALLOWED, limit none"),
    ];
    for (section, reason) in refusals {
        let gateway = Gateway::start(&format!("{section}{ECHO}"));
        assert_eq!(reads(&gateway, reason).await, Outcome::Ok, "{section}");
    }
    let gateway = Gateway::start(ECHO);
    gateway.run(&["admin", "contain", "echo", "--reason", "leaks prompts"]);
    assert_eq!(reads(&gateway, "agent `echo` is contained: leaks prompts").await, Outcome::Ok);
}

#[tokio::test]
async fn with_the_status_of_http_it_reads_only_that() {
    let config = "[server]\njsonrpc_status = \"http\"\n[budget.caller]\nmax_tasks_per_minute = 0\n";
    let gateway = Gateway::start(&format!("{config}{ECHO}"));
    assert_eq!(reads(&gateway, "HTTP Error 429").await, Outcome::Ok);
    assert!(matches!(reads(&gateway, "BUDGET_EXCEEDED").await, Outcome::Failed(_)));
}
