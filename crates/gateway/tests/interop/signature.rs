//! The SDK for Python verifies the cards of `chancery serve`, with the keys that are published where they say.

use crate::known::Counts;
use crate::ours::Server;
use crate::process::Program;
use crate::scenario::Outcome;

const VERIFIER: Program = Program::Python { environment: "1.0", script: "verify_card.py" };

const AGENT: &str = "[[agent]]\nname = \"conformance\"\nkind = \"builtin\"\n";

/// That SDK leaves out what is empty before it verifies; what a gateway signs by default has to stand that.
pub(crate) async fn meet(counts: &mut Counts) {
    let (open, closed) = (Server::serve(AGENT, None), Server::serve(AGENT, Some("alice")));
    for (what, server) in [("anonymous", &open), ("with keys", &closed)] {
        for algorithm in ["EdDSA", "ES256"] {
            let url = format!("{}/agents/conformance", server.url());
            match VERIFIER.try_one(&["--url", &url, "--algorithm", algorithm]).await {
                Outcome::Ok => {
                    println!("ok      python-1.0 verifies the card, {what}, {algorithm}");
                    counts.passed += 1;
                }
                outcome => {
                    println!("FAILED  python-1.0 verifies the card, {what}, {algorithm}: {outcome:?}");
                    counts.failed += 1;
                }
            }
        }
    }
}
