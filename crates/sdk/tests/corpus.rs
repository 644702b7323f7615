//! What the fuzzer started from and what it found, tried again: no decoder panics on any of it.
#![cfg(feature = "fuzzing")]

use std::path::Path;

use chancery_sdk::fuzzing::TARGETS;

#[test]
fn nothing_that_was_found_once_is_a_problem_again() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for target in TARGETS {
        let folder = corpus.join(target.name);
        let entries =
            std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut count = 0;
        for entry in entries {
            let path = entry.unwrap().path();
            let bytes = std::fs::read(&path).unwrap();
            if std::panic::catch_unwind(|| (target.run)(&bytes)).is_err() {
                panic!("{} panics on {}", target.name, path.display());
            }
            count += 1;
        }
        assert!(count > 0, "{} has no corpus", target.name);
    }
}
