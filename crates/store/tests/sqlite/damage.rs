//! A log that was cut short, and a disk that changes what it was given.

use chancery_protocol::TaskState;

use crate::folder::*;
use crate::support::*;

/// Whatever is left of the log: a prefix of the commits, without a gap.
#[tokio::test]
async fn a_torn_log_loses_only_its_end() {
    let folder = Folder::new("torn");
    let store = open(&folder.path("a.db"));
    create("journal", TaskState::Working, 0).done(&store).await;
    for n in 0..40 {
        draft("journal").chunk("a", &n.to_string()).done(&store).await;
        create(&format!("t{n:02}"), TaskState::Submitted, n)
            .status(TaskState::Completed, n)
            .done(&store)
            .await;
    }
    folder.copy_as_killed("a.db", "killed.db");
    drop(store);
    let log = std::fs::read(folder.path("killed.db-wal")).unwrap();
    let main = std::fs::read(folder.path("killed.db")).unwrap();
    let mut kept = Vec::new();
    for tenth in 0..=10 {
        for garbled in [false, true] {
            let path = folder.path(&format!("{tenth}-{garbled}.db"));
            let at = (log.len() - 1) * tenth / 10;
            let mut torn = log.clone();
            if garbled {
                torn[at..].fill(0xA5);
            } else {
                torn.truncate(at);
            }
            std::fs::write(&path, &main).unwrap();
            std::fs::write(folder.path(&format!("{tenth}-{garbled}.db-wal")), torn).unwrap();
            kept.push(prefix(&path).await);
        }
    }
    assert!(kept.is_sorted(), "more of the log, more of the commits: {kept:?}");
    assert!(kept.iter().any(|kept| (1..80).contains(kept)), "{kept:?}");
    assert!(kept.last().unwrap() >= &80, "{kept:?}");
}

/// How many commits are there. Each is there only with all before it.
async fn prefix(path: &std::path::Path) -> usize {
    let store = open(path);
    is_sound(&store).await;
    let total = store.list(&scope(), &query(1)).await.unwrap().total;
    if total == 0 {
        return 0;
    }
    let chunks = read(&store, "journal", 0, 100).await.len() - 1;
    let lives = total - 1;
    assert!(chunks == lives || chunks == lives + 1, "{chunks} chunks and {lives} tasks");
    for n in 0..lives {
        assert_eq!(snapshot(&store, &format!("t{n:02}")).await.number, 2);
    }
    let next = draft("journal").chunk("a", "next").done(&store).await;
    assert_eq!(next.number as usize, chunks + 2);
    1 + chunks + lives
}

#[tokio::test]
async fn a_flipped_bit_is_found_and_not_served() {
    let folder = Folder::new("flipped");
    let path = folder.path("a.db");
    let store = open(&path);
    for id in ["whole", "other"] {
        let text = format!("the words of {id}");
        create(id, TaskState::Submitted, 0)
            .artifact("a", &text)
            .status(TaskState::Completed, 0)
            .done(&store)
            .await;
    }
    create("stream", TaskState::Working, 0).chunk("a", "the words of stream").done(&store).await;
    drop(store);
    let mut bytes = std::fs::read(&path).unwrap();
    for words in ["the words of whole", "the words of stream"] {
        let at = bytes.windows(words.len()).position(|window| window == words.as_bytes()).unwrap();
        bytes[at] ^= 1;
    }
    std::fs::write(&path, bytes).unwrap();
    let store = open(&path);
    let text = refusal(store.snapshot(&scope(), &"whole".into()).await);
    assert!(text.contains("checksum") && text.contains("backup"), "{text}");
    refusal(store.snapshot(&scope(), &"stream".into()).await);
    refusal(store.read(&scope(), &"stream".into(), 0, 10).await);
    let error = draft("stream").chunk("a", "more").refused(&store).await;
    assert!(error.to_string().contains("checksum"), "{error}");
    let found = store.check().await.unwrap().problems;
    assert_eq!(found.len(), 2, "{found:?}");
    // The others are as they were, and new ones come.
    assert_eq!(snapshot(&store, "other").await.number, 3);
    create("new", TaskState::Working, 0).done(&store).await;
}
