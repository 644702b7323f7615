//! Agents that have a port of their own for gRPC: callers of v0.3 cannot name them in any other way.

use chancery_sdk::Client;
use chancery_sdk::egress::Egress;
use chancery_sdk::protocol::{ProtocolBinding, Version};

use crate::gateway::Gateway;
use crate::provenance::card;

fn free_port() -> std::net::SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_is_found_by_its_port_over_grpc_of_every_version() {
    let (echo, stream) = (free_port(), free_port());
    let gateway = Gateway::start(&format!(
        "[[agent]]\nname = \"echo\"\nkind = \"builtin\"\ngrpc_listen = \"{echo}\"\n\
         [[agent]]\nname = \"stream\"\nkind = \"builtin\"\ngrpc_listen = \"{stream}\"\n"
    ));
    for (name, port) in [("echo", echo), ("stream", stream)] {
        let card = card(&gateway, name).await;
        let interfaces = card["supportedInterfaces"].as_array().expect("interfaces");
        let old =
            interfaces.iter().find(|one| one["protocolBinding"] == "GRPC" && one["protocolVersion"] == "0.3");
        assert_eq!(old.expect("it is named")["url"], port.to_string(), "{card}");
    }
    for name in ["echo", "stream"] {
        for version in [Version::V0_3, Version::V1_0] {
            let client = Client::builder()
                .egress(Egress::unrestricted())
                .only([ProtocolBinding::Grpc])
                .version(version)
                .connect(gateway.agent(name))
                .await;
            let client = client.unwrap_or_else(|error| panic!("{name} {version}: {error}"));
            let said = client.send("hello").await.unwrap_or_else(|error| panic!("{name} {version}: {error}"));
            assert_eq!(said.text() == "hello", name == "echo", "{name} {version}: {}", said.text());
        }
    }
}
