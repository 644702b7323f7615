//! What a receiver trusted us with is never logged, whatever becomes of the delivery.

use std::io;
use std::sync::Arc;

use chancery_sdk::protocol::{AuthenticationInfo, TaskPushNotificationConfig};
use chancery_sdk::push::{Deliverer, PushLimits};
use parking_lot::Mutex;

use crate::receiver::*;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One thread runs all of this test, so that the log of this thread is the log of everything.
#[tokio::test(flavor = "current_thread")]
async fn secrets_are_never_logged() {
    let log = Log::default();
    let writer = log.clone();
    let filter = tracing_subscriber::EnvFilter::new("chancery_sdk=trace,chancery_store=trace");
    let subscriber =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(move || writer.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);

    let receiver = Receiver::start([Say::Status(500), Say::Status(400)]).await;
    let dead = Dead::new();
    let (store, clock) = store();
    let secret = |id: &str, url: String| TaskPushNotificationConfig {
        token: "hush".to_owned(),
        authentication: Some(AuthenticationInfo {
            scheme: "Basic".to_owned(),
            credentials: "hush".to_owned(),
        }),
        ..config(id, url)
    };
    let bad =
        TaskPushNotificationConfig { token: "hush\n".to_owned(), ..secret("bad", receiver.url("hush")) };
    begin(&store, "t", secret("fails", receiver.url("hush?key=hush")), 1).await;
    begin(&store, "u", secret("dead", dead.url("hush")), 1).await;
    begin(&store, "v", secret("forbidden", "http://10.0.0.1/hush".to_owned()), 1).await;
    begin(&store, "w", secret("odd", "http://hush:hush@receiver.example/hush".to_owned()), 1).await;
    begin(&store, "x", bad, 1).await;
    let limits = PushLimits { attempts: 2, ..PushLimits::default() };
    let deliverer = Deliverer::spawn(store.clone(), egress(), limits);
    loop {
        tokio::select! {
            () = settled(&store) => break,
            next = postponed(&store) => clock.set(next),
        }
        deliverer.wake();
    }
    let log = String::from_utf8(log.0.lock().clone()).unwrap();
    for task in ["t", "u", "v", "w", "x"] {
        assert!(log.contains(&format!("notifications of task {task} are given up")), "{task} in {log}");
    }
    assert!(log.contains("failed and is postponed"), "{log}");
    assert!(!log.contains("hush"), "{log}");
}
