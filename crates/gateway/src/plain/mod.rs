//! The plain HTTP profile, for callers without an A2A library: ask for a card, negotiate, invoke, look whether it is well.
//! For the fleet at the root, for each agent below its own path. Every call goes the way of all calls: who it is, how often,
//! the gates, the journal.
//!
//! | file | holds |
//! |---|---|
//! | `head` | what the headers say |
//! | `body`, `schema` | what is sent and answered, and the schemas of it |
//! | `negotiate`, `agreement` | what would be let through, and the seal on it |
//! | `invoke`, `stream` | a call, answered as a whole or piece by piece |
//! | `failure` | why there is no answer |

mod agreement;
mod body;
mod failure;
mod head;
mod invoke;
mod negotiate;
mod schema;
mod stream;

use std::sync::Arc;

use chancery_protocol::{Caller, Error};
use chancery_sdk::{Body, Refused, Routes, Visitor, Way};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Response, StatusCode};
use serde::Serialize;
use serde_json::Value;

use crate::fleet::{Formation, Member, private_json};
use crate::govern::Regime;
use crate::ready::Readiness;
use crate::routes::{self, PlainRoute};
pub(crate) use agreement::Seal;
use body::{Answer, Health, InvokeRequest};
use failure::Failure;
use schema::Sent;

/// The profile.
pub(crate) struct Plain {
    fleet: Formation,
    readiness: Readiness,
    seal: Seal,
}

/// The profile's paths, as the server asks about them.
pub(crate) struct PlainRoutes(pub(crate) Arc<Plain>);

/// A body that was read: as it came, and as a value.
struct Posted {
    bytes: bytes::Bytes,
    value: Value,
}

// === impl Plain ===

impl Plain {
    pub(crate) fn new(fleet: Formation, readiness: Readiness, seal: Seal) -> Arc<Self> {
        Arc::new(Self { fleet, readiness, seal })
    }

    fn regime(&self) -> &Regime {
        self.fleet.regime()
    }

    async fn answer(
        &self,
        visitor: &Visitor,
        agent: Option<&Member>,
        what: PlainRoute,
    ) -> Result<Response<Body>, Refused> {
        if agent.is_some_and(|member| !visitor.sees(&member.name)) {
            return Ok(visitor.nowhere());
        }
        let mut response = match what {
            PlainRoute::Card => self.fleet.show_card(visitor)?,
            PlainRoute::Health => self.health(visitor, agent).await?,
            PlainRoute::Negotiate | PlainRoute::Invoke | PlainRoute::Stream => {
                let mut id = None;
                let answered = self.posted(visitor, agent, what, &mut id).await;
                answered.unwrap_or_else(|failure| failure.respond(id))
            }
        };
        echo(visitor.head(), &mut response);
        Ok(response)
    }

    /// What is posted. The id of a call is told to whoever answers, as soon as it is known.
    async fn posted(
        &self,
        visitor: &Visitor,
        agent: Option<&Member>,
        what: PlainRoute,
        id: &mut Option<Value>,
    ) -> Result<Response<Body>, Failure> {
        let head = visitor.head();
        if what != PlainRoute::Negotiate {
            *id = Some(Value::Null);
        }
        if head.method != Method::POST {
            return Err(Failure::method("POST"));
        }
        let caller = visitor.caller()?;
        head::required_id(head)?;
        head::check_agent(head, &caller)?;
        let posted = Posted::read(visitor).await?;
        if what == PlainRoute::Negotiate {
            return Ok(written(&self.negotiate(visitor, &caller, agent, posted.typed()?)?));
        }
        let named = posted.value.get("id").filter(|id| id.is_string() || id.is_number());
        *id = Some(named.cloned().unwrap_or_default());
        self.called(visitor, caller, agent, what, &posted, id.clone().unwrap_or_default()).await
    }

    async fn called(
        &self,
        visitor: &Visitor,
        caller: Caller,
        agent: Option<&Member>,
        what: PlainRoute,
        posted: &Posted,
        id: Value,
    ) -> Result<Response<Body>, Failure> {
        let InvokeRequest { params, .. } = posted.typed()?;
        let (request, context) = self.prepare(visitor, caller, agent, params)?;
        match what {
            PlainRoute::Stream => self.stream(visitor, request, context, id).await,
            _ => Ok(written(&Answer::new(id, self.invoke(visitor, request, context).await?))),
        }
    }

    /// Of the gateway, whoever asks; of an agent, who may send messages to it.
    async fn health(&self, visitor: &Visitor, agent: Option<&Member>) -> Result<Response<Body>, Refused> {
        let health = match agent {
            None => {
                let reasons = self.readiness.problems().await;
                Health { status: if reasons.is_empty() { "ok" } else { "unavailable" }, reasons }
            }
            Some(member) => {
                let caller = visitor.caller()?;
                if self.fleet.seen(&caller, member).is_none() {
                    return Ok(visitor.nowhere());
                }
                let known = self.fleet.health(member);
                let contained = self.regime().plane().containment.all();
                let contained = contained.get(&*member.name).map(|why| format!("contained: {why}"));
                let status = match known.status() {
                    _ if contained.is_some() => "unavailable",
                    "healthy" => "ok",
                    "unhealthy" => "unavailable",
                    unknown => unknown,
                };
                let reasons = known.reason().map(str::to_owned).into_iter().chain(contained).collect();
                Health { status, reasons }
            }
        };
        let mut response = private_json(&health)?;
        if health.status == "unavailable" {
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        }
        Ok(response)
    }
}

// === impl PlainRoutes ===

impl Routes for PlainRoutes {
    fn find(&self, head: &Parts) -> Option<Way> {
        let plain = self.0.clone();
        if let Some(found) = routes::find(&routes::SCHEMAS, &head.method, head.uri.path()) {
            let name = found.first().unwrap_or_default().to_owned();
            return Some(Way::answer(move |visitor| async move {
                Ok(schema::show(&visitor, &plain.fleet.url(""), &name))
            }));
        }
        let found = routes::find(&routes::PLAIN, &head.method, head.uri.path())?;
        let member = match found.first() {
            // What nobody is called is found nowhere, by whoever knows the members.
            Some(name) => Some(self.0.regime().roster.get(name)?.clone()),
            None => None,
        };
        if let (PlainRoute::Card, Some(member)) = (found.route, &member) {
            let below = chancery_sdk::WELL_KNOWN_CARD.to_owned();
            return Some(Way::Agent { name: member.name.clone(), below, skill: None, plain: true });
        }
        let what = found.route;
        Some(Way::answer(move |visitor| async move {
            plain.answer(&visitor.plain(), member.as_ref(), what).await
        }))
    }

    fn is_probe(&self, head: &Parts) -> bool {
        let found = routes::find_path(&routes::PLAIN, head.uri.path());
        found.is_some_and(|found| found.route == PlainRoute::Health && found.first().is_none())
    }

    fn refuse(&self, head: &Parts, error: &Error) -> Option<Response<Body>> {
        let what = asked(head)?;
        let id = matches!(what, PlainRoute::Invoke | PlainRoute::Stream).then_some(Value::Null);
        let mut response = Failure::from(error).respond(id);
        echo(head, &mut response);
        Some(response)
    }
}

/// What a path is for, by whatever verb it is asked.
fn asked(head: &Parts) -> Option<PlainRoute> {
    routes::find_path(&routes::PLAIN, head.uri.path()).map(|found| found.route)
}

// === impl Posted ===

impl Posted {
    async fn read(visitor: &Visitor) -> Result<Self, Failure> {
        let bytes = visitor.body(&["application/json"]).await?;
        let unreadable = |error: serde_json::Error| Failure::invalid("NOT_JSON", error.to_string());
        let value = serde_json::from_slice(&bytes).map_err(unreadable)?;
        Ok(Self { bytes, value })
    }

    fn typed<T: Sent>(&self) -> Result<T, Failure> {
        schema::read(&self.bytes, &self.value)
    }
}

fn written(answer: &impl Serialize) -> Response<Body> {
    let text = serde_json::to_vec(answer).unwrap_or_default();
    let mut response = Response::new(Body::from(text));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(http::header::CONTENT_TYPE, json);
    response
}

/// Says which request it is the answer to.
fn echo(head: &Parts, response: &mut Response<Body>) {
    let id = head::request_id(&head.headers).and_then(|id| HeaderValue::try_from(id).ok());
    if let Some(id) = id {
        response.headers_mut().insert(HeaderName::from_static(head::REQUEST_ID), id);
    }
}
