//! The gateway looked after while it runs: what goes on, what is spent, who is cut off. On an address of its own, which
//! only this machine can reach, for whoever has the token.
//!
//! | file | holds |
//! |---|---|
//! | `door` | the address and the token, and the file that says both |
//! | `listener` | the connections |
//! | `desk` | what can be asked, and who knows it |
//! | `agents` | agents, contained and released; members of pools |
//! | `calls` | open calls, the tree of a root, cancel |
//! | `money` | budgets |
//! | `operator` | who has done something, for the audit log |
//! | `probes` | whether it lives, whether it is ready; metrics |
//! | `client` | the other side: a request, for the command line |
//! | `contained` | the record of who is cut off, which outlives the process |

mod agents;
mod calls;
pub(crate) mod client;
mod contained;
mod desk;
mod door;
mod listener;
mod money;
mod operator;
mod probes;

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use axum::body::HttpBody as _;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use axum::{Json, Router};
use chancery_sdk::CrossOriginProtection;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde_json::json;
use tokio::net::TcpListener;

use crate::config::AdminSection;
use crate::identity::RefusedCredentials;
use crate::routes::{self, ADMIN, AdminRoute, Row, Verb};
pub(crate) use contained::ContainedFile;
pub(crate) use desk::Desk;
pub(crate) use door::Door;

/// How much anybody may send here.
const LARGEST: usize = 64 * 1024;

/// Listens, writes down where, and answers until the process ends.
pub(crate) async fn open(section: &AdminSection, data: &Path, desk: Desk) -> anyhow::Result<()> {
    if !section.enabled {
        return Door::forget(data);
    }
    let listener = TcpListener::bind(section.listen)
        .await
        .with_context(|| format!("cannot listen on {} for `chancery admin`", section.listen))?;
    let door = Arc::new(Door::open(data, listener.local_addr()?)?);
    tracing::info!(url = door.url(), "looked after at {}", door.url());
    tokio::spawn(listener::run(listener, router(Arc::new(desk), door)));
    Ok(())
}

fn router(desk: Arc<Desk>, door: Arc<Door>) -> Router {
    let (open, locked): (Vec<_>, Vec<_>) = ADMIN.iter().partition(|row| is_probe(row.route));
    let serving = |rows: Vec<&Row<AdminRoute>>| {
        rows.into_iter().fold(Router::new(), |router, row| router.route(row.path, answer(row)))
    };
    let entrance = Arc::new(Entrance { door, refusals: RefusedCredentials::of(&desk.governor) });
    let locked = serving(locked).layer(middleware::from_fn_with_state(entrance, only_with_the_token));
    let open = serving(open);
    let all = open.merge(locked).fallback(nowhere).layer(DefaultBodyLimit::max(LARGEST));
    let protection = Arc::new(CrossOriginProtection::new([""; 0]));
    all.layer(middleware::from_fn_with_state(protection, only_from_no_page)).with_state(desk)
}

/// Who answers at a path.
fn answer(row: &Row<AdminRoute>) -> MethodRouter<Arc<Desk>> {
    let verb = if row.verb == Verb::Post { MethodFilter::POST } else { MethodFilter::GET };
    match row.route {
        AdminRoute::Live => on(verb, probes::livez),
        AdminRoute::Ready => on(verb, probes::readyz),
        AdminRoute::Agents => on(verb, agents::list),
        AdminRoute::Contain => on(verb, agents::contain),
        AdminRoute::Release => on(verb, agents::release),
        AdminRoute::Breakers => on(verb, agents::breakers),
        AdminRoute::Calls => on(verb, calls::list),
        AdminRoute::Tree => on(verb, calls::tree),
        AdminRoute::CancelTask => on(verb, calls::cancel),
        AdminRoute::Budgets => on(verb, money::budgets),
        AdminRoute::Explain => on(verb, calls::explain),
        AdminRoute::Config => on(verb, desk::config),
        AdminRoute::Reload => on(verb, desk::reload),
        AdminRoute::Metrics => on(verb, probes::metrics),
    }
}

/// Whether anybody may ask, by whatever name.
fn is_probe(route: AdminRoute) -> bool {
    matches!(route, AdminRoute::Live | AdminRoute::Ready)
}

/// No web page has anything to ask here, and a body says that it is JSON.
async fn only_from_no_page(
    State(protection): State<Arc<CrossOriginProtection>>,
    request: Request,
    next: Next,
) -> Response {
    let (head, body) = request.into_parts();
    let asked = routes::find_path(&ADMIN, head.uri.path());
    let called =
        if asked.is_some_and(|found| is_probe(found.route)) { Ok(()) } else { protection.check_host(&head) };
    if let Err(refusal) = called.and_then(|()| protection.check_origin(&head)) {
        return Problem(refusal.status(), refusal.to_string()).into_response();
    }
    let named = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_json = named.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json");
    if !body.is_end_stream() && !is_json {
        let why = "a body has the Content-Type `application/json` here".to_owned();
        return Problem(StatusCode::UNSUPPORTED_MEDIA_TYPE, why).into_response();
    }
    next.run(Request::from_parts(head, body)).await
}

/// The door, and where it is written down that somebody was not let in.
struct Entrance {
    door: Arc<Door>,
    refusals: RefusedCredentials,
}

async fn only_with_the_token(
    State(entrance): State<Arc<Entrance>>,
    request: Request,
    next: Next,
) -> Response {
    match entrance.door.lets_in(request.headers()) {
        true => next.run(request).await,
        false => {
            let (head, _) = request.into_parts();
            entrance.refusals.of_operator(&head, operator::address(&head));
            let why = "the token of this gateway is wanted: `Authorization: Bearer TOKEN`, see admin.json in its data directory";
            let mut response = Problem(StatusCode::UNAUTHORIZED, why.to_owned()).into_response();
            let challenge = http::HeaderValue::from_static("Bearer");
            response.headers_mut().insert(http::header::WWW_AUTHENTICATE, challenge);
            response
        }
    }
}

async fn nowhere() -> Problem {
    Problem(StatusCode::NOT_FOUND, "there is nothing at this path".to_owned())
}

/// What is wrong with a request, or could not be done.
#[derive(Debug)]
struct Problem(StatusCode, String);

impl axum::response::IntoResponse for Problem {
    fn into_response(self) -> Response {
        (self.0, Json(json!({ "error": self.1 }))).into_response()
    }
}

impl From<chancery_store::StoreError> for Problem {
    fn from(error: chancery_store::StoreError) -> Self {
        Self(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
    }
}
