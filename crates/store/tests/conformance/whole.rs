//! Tasks that have ended elsewhere and come as a whole.

use chancery_protocol::{KeptTask, TaskState};
use chancery_store::{ListQuery, Store, StoreError, StoreLimits};

use crate::support::*;

pub(crate) async fn a_task_that_comes_whole_is_kept_as_it_came(open: impl Fn(StoreLimits) -> Store) {
    let store = open(limits(|limits| limits.task.artifacts = 2));
    let task = |id: &str, artifacts: usize| {
        let artifacts = vec![r#"{"artifactId":"a","parts":[{"text":"x"}]}"#; artifacts].join(",");
        let status = r#"{"state":"TASK_STATE_COMPLETED","timestamp":"2099-01-01T00:00:00.005Z"}"#;
        format!(r#"{{"status":{status},"x":1.00,"contextId":"c","id":"{id}","artifacts":[{artifacts}]}}"#)
    };
    let shown = |task: &KeptTask| {
        let mut json = Vec::new();
        task.write_json(&mut json).unwrap();
        String::from_utf8(json).unwrap()
    };
    let appended = ended("t", &task("t", 2)).state("7").done(&store).await;
    assert_eq!((appended.events.len(), appended.number, appended.push), (0, 1, false));
    assert_eq!(shown(&appended.task), task("t", 2));
    let kept = snapshot(&store, "t").await;
    assert_eq!((shown(&kept.task), kept.number), (task("t", 2), 1));
    assert_eq!((kept.task.id().as_str(), kept.task.is_over()), ("t", true));
    assert_eq!(kept.state.unwrap().as_str(), "7");
    assert!(is_compacted(&store, "t", 0).await);
    let query = ListQuery { context_id: Some("c".into()), state: Some(TaskState::Completed), ..query(9) };
    assert_eq!(ids(&store.list(&scope(), &query).await.unwrap()), ["t"]);

    // Refused is what would be refused otherwise.
    assert!(matches!(ended("t", &task("t", 1)).refused(&store).await, StoreError::Exists { .. }));
    let full = ended("u", &task("u", 3)).refused(&store).await;
    assert!(matches!(full, StoreError::TaskFull { what: "artifacts", limit: 2, .. }), "{full}");
    assert!(is_gone(&store, "u").await);

    // Whoever is to be shown or sent its event is, and what is added to it is there.
    for batch in [ended("v", &task("v", 1)).watched(), ended("w", &task("w", 1)).push("x")] {
        let appended = batch.done(&store).await;
        assert_eq!(numbers(&appended.events), [1]);
        assert!(appended.events[0].json.starts_with(br#"{"task":{"status":"#));
        assert_eq!(value(&appended.task).artifacts.len(), 1);
    }
    ended("y", &task("y", 1)).noted("cost", 7).done(&store).await;
    let noted = value(&snapshot(&store, "y").await.task);
    assert_eq!((noted.metadata.is_some(), noted.artifacts.len()), (true, 1));
}
