//! Every way to ask something of a server, read from the tables by which it dispatches: a test that goes through all of them
//! misses none that is added later.

use chancery_protocol::{OPERATIONS, Operation, Version};
use http::Method;

use crate::binding::grpc;
use crate::dialect::{v0_1, v0_3};
use crate::server::{CARD_PATHS, JSONRPC_PATHS, WELL_KNOWN_KEYS};

/// A way to ask something of a server. Paths are below that of an agent, unless it says otherwise; in the place of what
/// stands in braces there is an id.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServedRoute {
    /// The card of an agent, for everybody.
    Card {
        /// Where.
        path: &'static str,
    },
    /// The keys that cards are signed with, below the server.
    Keys {
        /// Where.
        path: &'static str,
    },
    /// A method of JSON-RPC, posted to a path that may end with a slash.
    JsonRpc {
        /// Where.
        path: &'static str,
        /// The version that it is a method of.
        version: Version,
        /// The method.
        method: &'static str,
        /// What it asks for.
        operation: Operation,
    },
    /// A verb and a path of HTTP+JSON.
    HttpJson {
        /// The version.
        version: Version,
        /// The verb.
        verb: Method,
        /// Where.
        path: String,
        /// What it asks for.
        operation: Operation,
    },
    /// A method of gRPC, below the server.
    Grpc {
        /// Where.
        path: String,
        /// The version of A2A and what is asked for, unless the service is another.
        asks: Option<(Version, Operation)>,
    },
}

/// All of them, with their older names and forms.
pub fn served_routes() -> Vec<ServedRoute> {
    let mut routes: Vec<_> = CARD_PATHS.iter().map(|path| ServedRoute::Card { path }).collect();
    routes.push(ServedRoute::Keys { path: WELL_KNOWN_KEYS });
    routes.extend([""].into_iter().chain(JSONRPC_PATHS).flat_map(jsonrpc));
    routes.extend(http_json());
    routes.extend(grpc::paths().map(|(path, method)| ServedRoute::Grpc {
        path,
        asks: match method {
            grpc::Method::A2a(version, operation) => Some((version, operation)),
            grpc::Method::Health(_) | grpc::Method::Reflection => None,
        },
    }));
    routes
}

fn jsonrpc(path: &'static str) -> impl Iterator<Item = ServedRoute> {
    let mut v1_0: Vec<_> = OPERATIONS.iter().map(|row| (row.method, row.operation)).collect();
    v1_0.dedup();
    let of = |version| move |(method, operation)| ServedRoute::JsonRpc { path, version, method, operation };
    let older = v0_3::jsonrpc::METHODS.into_iter().map(of(Version::V0_3));
    let oldest = v0_1::jsonrpc::METHODS.into_iter().map(of(Version::V0_1));
    v1_0.into_iter().map(of(Version::V1_0)).chain(older).chain(oldest)
}

fn http_json() -> impl Iterator<Item = ServedRoute> {
    let of = |version, before: &'static str| {
        OPERATIONS.iter().map(move |row| {
            let (verb, path) = (row.verb.clone(), format!("{before}{}", row.path));
            ServedRoute::HttpJson { version, verb, path, operation: row.operation }
        })
    };
    let card = |path: String| {
        let operation = Operation::GetExtendedAgentCard;
        ServedRoute::HttpJson { version: Version::V0_3, verb: Method::GET, path, operation }
    };
    let cards = [format!("{}{}", v0_3::rest::PREFIX, v0_3::rest::CARD), v0_3::rest::OLD_CARD.to_owned()];
    let tenant = "/{tenant}";
    of(Version::V1_0, "")
        .chain(of(Version::V1_0, tenant))
        .chain(of(Version::V0_3, v0_3::rest::PREFIX))
        .chain(cards.map(card))
}
