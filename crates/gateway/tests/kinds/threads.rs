//! Threads for connections, as many as the configuration says.

use std::fs;
use std::num::NonZero;
use std::thread::available_parallelism;

use crate::gateway::Gateway;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_have_as_many_threads_as_the_configuration_says() {
    let cores = available_parallelism().map_or(1, NonZero::get);
    for (said, count) in [("", cores), ("[server]\nthreads = 3\n", 3), ("[server]\nthreads = 0\n", 0)] {
        let gateway = Gateway::start(&format!("{said}[[agent]]\nname = \"echo\"\nkind = \"builtin\"\n"));
        assert_eq!(threads_for_connections(gateway.pid()), count, "{said}");
        assert_eq!(gateway.client("echo").await.send("hello").await.expect("an answer").text(), "hello");
    }
}

fn threads_for_connections(pid: u32) -> usize {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("a process");
    let names = threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("comm")).ok());
    names.filter(|name| name.starts_with("connections-")).count()
}
