//! The SDK for Python verifies the cards of `chancery serve`, with the keys that are published where they say.

use crate::known::Counts;
use crate::ours::Server;
use crate::process::Program;
use crate::scenario::Outcome;

const VERIFIER: Program = Program::Python { environment: "1.0", script: "verify_card.py" };

const AGENT: &str = "[[agent]]\nname = \"conformance\"\nkind = \"builtin\"\n";

/// Cards with nothing empty in them can be verified as they are; one that asks for a key has something empty, which that
/// SDK leaves out.
pub(crate) async fn meet(counts: &mut Counts) {
    let open = Server::serve(AGENT, None);
    let closed =
        Server::serve(&format!("[cards]\nfor_readers_without_empties = true\n{AGENT}"), Some("alice"));
    for (what, server) in [("anonymous", &open), ("with keys", &closed)] {
        for algorithm in ["EdDSA", "ES256"] {
            let url = format!("{}/agents/conformance", server.url());
            match VERIFIER.try_one(&["--url", &url, "--algorithm", algorithm]).await {
                Outcome::Ok => {
                    println!("ok      python-1.0 verifies the card, {what}, {algorithm}");
                    counts.passed += 1;
                }
                Outcome::Failed(why) => {
                    println!("FAILED  python-1.0 verifies the card, {what}, {algorithm}: {why}");
                    counts.failed += 1;
                }
            }
        }
    }
}
