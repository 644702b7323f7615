//! A whole site as something to be called: by servers, and by whoever looks after its tasks from outside.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use chancery_protocol::{AgentCard, BoxFuture, DynEndpoint, Error, Principal, TaskId, box_future};
use http::{HeaderValue, Response, Version, header};
use tower_layer::Layer as _;
use tower_service::Service as _;

use super::body::{Body, RequestBody};
use super::connections::ConnectionSlots;
use super::cors::Cors;
use super::grpc::MeantFor;
use super::guard::Guard;
use super::limits::ServerLimits;
use super::mount::{Mount, Served};
use super::offer::Offer;
use super::problems::clashes;
use super::proxies::Peer;
use super::routes::Routes;
use super::site::Site;
use super::table::{Reception, Table};
use super::{BuildError, ServeError};
use crate::push::Deliverer;
use crate::runtime::Runtime;

/// How often to look whether anybody still needs an agent that is gone.
const LOOK: Duration = Duration::from_secs(1);

/// A whole site as one `tower` service, for hyper, axum or anything else that takes one.
#[derive(Clone)]
pub struct Service {
    site: Arc<Site>,
    /// The other end of the connection, if all requests come over one.
    peer: Peer,
    /// The agent that gRPC is for over that connection, if it is one alone.
    agent: Option<Arc<str>>,
}

type Answer = BoxFuture<'static, Result<Response<Body>, Infallible>>;

/// What is to be different on a site, all at once or not at all: see [`Service::change`].
#[derive(Default)]
pub struct Change {
    /// Each takes the place of whatever has its name.
    pub put: Vec<Offer>,
    /// Agents that are taken away, by name.
    pub remove: Vec<String>,
    /// What stands in front of every agent from then on; what did before, if none. A site has one from the beginning or never.
    pub guard: Option<Arc<dyn Guard>>,
    /// Who is asked first whose a request is; who was before, if none.
    pub routes: Option<Vec<Arc<dyn Routes>>>,
}

// === impl Service ===

impl Service {
    pub(crate) fn new(site: Site) -> Self {
        Self { site: Arc::new(site), peer: Peer::Unknown, agent: None }
    }

    /// The same for one connection.
    pub(crate) fn for_connection(&self, peer: Peer, agent: Option<Arc<str>>) -> Self {
        Self { site: self.site.clone(), peer, agent }
    }

    /// Puts something at a path while the site is served. What was there under the same name before it goes on with what it
    /// has begun, and its tasks are this one's from now on. See [`change`](Self::change).
    pub async fn put(&self, offer: impl Into<Offer>) -> Result<(), ServeError> {
        self.change(Change { put: vec![offer.into()], ..Change::default() }).await
    }

    /// Takes an agent away, and says whether there was one. What it has begun goes on, and those who watch it see it end.
    pub async fn remove(&self, agent: &str) -> bool {
        let is_there = self.site.table.load().named(agent).is_some();
        let change = Change { remove: vec![agent.to_owned()], ..Change::default() };
        is_there && self.change(change).await.is_ok()
    }

    /// Changes what is mounted, and what stands in front of it, all at once or not at all: a request finds everything as it
    /// was, or everything as it is to be. No call fails because of it: one that has found its agent is answered by that
    /// agent, and turns that run are finished by the agent that began them. An agent that is new here picks up what
    /// an earlier process left, as [`recover`](Self::recover) says, before it is called.
    pub async fn change(&self, change: Change) -> Result<(), ServeError> {
        let site = &self.site;
        let _changing = site.changing.lock().await;
        let before = site.table.load_full();
        let Change { put, remove, guard, routes } = change;
        let reception = Reception {
            guard: guard.clone().or_else(|| before.reception.guard.clone()),
            routes: routes.map_or_else(|| before.reception.routes.clone(), Into::into),
        };
        let mut mounts = self.staying(&before, &put, &remove)?;
        for offer in &put {
            mounts.push(self.succeed(&before, offer, reception.guard.as_ref()).await?);
        }
        let mut retired = retire(&before, &mounts);
        if let Some(guard) = &guard {
            let touched: HashSet<_> = put.iter().map(Offer::name).collect();
            let staying = mounts.iter_mut().filter(|mount| !touched.contains(&*mount.name));
            staying.for_each(|mount| *mount = Arc::new(mount.under(&**guard, false)));
            retired.values_mut().for_each(|mount| *mount = Arc::new(mount.under(&**guard, true)));
        }
        let leaving: Vec<_> = retired.values().filter(|mount| !is_retired(&before, mount)).cloned().collect();
        let table = Arc::new(Table::new(reception, mounts, retired));
        site.table.store(table.clone());
        if let Some(guard) = &guard {
            let all = table.mounts().chain(table.all_retired().values());
            all.for_each(|mount| mount.readmitted_by(guard));
        }
        for mount in leaving {
            tokio::spawn(forget(Arc::downgrade(site), mount));
        }
        Ok(())
    }

    /// What is not touched by a change, if the change can be made.
    fn staying(
        &self,
        before: &Table,
        put: &[Offer],
        remove: &[String],
    ) -> Result<Vec<Arc<Mount>>, BuildError> {
        let touched: HashSet<_> =
            put.iter().map(Offer::name).chain(remove.iter().map(String::as_str)).collect();
        let mounts: Vec<_> =
            before.mounts().filter(|mount| !touched.contains(&*mount.name)).cloned().collect();
        let mounter = &self.site.mounter;
        let mut problems: Vec<_> =
            put.iter().flat_map(|offer| offer.problems(mounter.extends, &mounter.versions)).collect();
        let staying = mounts.iter().map(|mount| (mount.path.as_str(), &*mount.name));
        problems.extend(clashes(staying.chain(put.iter().map(|offer| (offer.path(), offer.name())))));
        if problems.is_empty() { Ok(mounts) } else { Err(BuildError { problems }) }
    }

    /// Mounts an offer in the place of what had its name.
    async fn succeed(
        &self,
        before: &Table,
        offer: &Offer,
        guard: Option<&Arc<dyn Guard>>,
    ) -> Result<Arc<Mount>, ServeError> {
        let name = offer.name();
        let known = [before.named(name), before.retired(name)].into_iter().flatten();
        let earlier: Vec<_> = known.filter(|mount| offer.what.is_like(&mount.served)).collect();
        let mounter = &self.site.mounter;
        let mount = mounter.mount(offer, false, earlier.first().map(|mount| &mount.served), guard);
        if before.named(name).is_none() && before.retired(name).is_none() {
            self.recover_one(&mount, guard).await.map_err(ServeError::Recover)?;
        }
        Ok(mount)
    }

    /// Cancels a task of an agent of the site in the name of whoever owns it, past whatever stands in front of the agent.
    /// Says whether there was anything to cancel.
    pub async fn cancel_task(
        &self,
        agent: &str,
        principal: &Principal,
        task: &TaskId,
    ) -> Result<bool, Error> {
        match self.holder(agent, principal, task) {
            Some(mount) => mount.served.cancel(&mount.name, principal, task).await,
            None => Ok(false),
        }
    }

    /// Ends a task of an agent of the site as FAILED, for a reason that its caller may read, and stops the work on it,
    /// here or elsewhere. Says whether there was anything to end.
    pub async fn stop_task(
        &self,
        agent: &str,
        principal: &Principal,
        task: &TaskId,
        why: &str,
    ) -> Result<bool, Error> {
        match self.holder(agent, principal, task) {
            Some(mount) => mount.served.stop(principal, task, why).await,
            None => Ok(false),
        }
    }

    /// Who works on a task: the agent of this name, or one that had it before.
    fn holder(&self, agent: &str, principal: &Principal, task: &TaskId) -> Option<Arc<Mount>> {
        let table = self.site.table.load();
        let retired = table.retired(agent).filter(|mount| mount.served.has_live(principal, task));
        retired.or_else(|| table.named(agent)).cloned()
    }

    /// The names of the agents that are mounted, in no order.
    pub fn agents(&self) -> Vec<Arc<str>> {
        self.site.table.load().mounts().map(|mount| mount.name.clone()).collect()
    }

    /// Whoever answers the calls to an agent, behind whatever stands in front of it.
    pub fn endpoint(&self, agent: &str) -> Option<Arc<dyn DynEndpoint>> {
        self.site.table.load().named(agent).map(|mount| mount.endpoint())
    }

    /// The card of an agent, as it is shown now; its signatures are made when it is shown.
    pub fn card(&self, agent: &str) -> Option<Arc<AgentCard>> {
        self.site.table.load().named(agent).map(|mount| mount.shown.now().card.clone())
    }

    /// Writes into a card how whatever is at a path can be called there, and how callers prove who they are. Over gRPC,
    /// which has no paths, a tenant names it.
    pub fn complete_card(&self, path: &str, tenant: &str, card: &mut AgentCard) {
        self.site.mounter.place(path, tenant).put_to(card);
    }

    /// The URL that its cards name.
    pub fn url(&self) -> &str {
        &self.site.mounter.url
    }

    /// The runtime of an agent of the site, by the agent's name: what
    /// [`resume`](Runtime::resume) is called on. An agent that is elsewhere has none here.
    pub fn runtime(&self, agent: &str) -> Option<Runtime> {
        self.site.table.load().named(agent)?.served.runtime().cloned()
    }

    /// Ends what an earlier process left unfinished, for every agent of the site, as [`Runtime::recover`] says. Gives the number
    /// of tasks that were ended. A [`Server`](super::Server) has done this by the time it listens.
    pub async fn recover(&self) -> Result<usize, Error> {
        let mut ended = 0;
        let table = self.site.table.load_full();
        for mount in table.mounts() {
            ended += self.recover_one(mount, table.reception.guard.as_ref()).await?;
        }
        Ok(ended)
    }

    async fn recover_one(&self, mount: &Mount, guard: Option<&Arc<dyn Guard>>) -> Result<usize, Error> {
        let restored = guard.map(|guard| guard.restored(&mount.name));
        mount.served.recover(&mount.name, restored.unwrap_or_default()).await
    }

    /// Has all cards signed again, as after a change of keys: each when somebody next asks for it.
    pub fn sign_cards_again(&self) {
        self.site.table.load().mounts().for_each(|mount| mount.shown.sign_again());
    }

    pub(crate) fn deliverer(&self) -> Option<&Deliverer> {
        self.site.mounter.deliverer.get()
    }

    /// How many streams are open.
    pub fn open_streams(&self) -> usize {
        self.site.streams.open()
    }

    /// How many connections have been refused since their source had as many as it may.
    pub fn refused_connections(&self) -> u64 {
        self.site.refused_connections.load(Ordering::Relaxed)
    }

    /// How many credentials have been refused.
    pub fn refused_credentials(&self) -> u64 {
        self.site.refused_credentials.count()
    }

    /// Places for connections to it.
    pub(super) fn connection_slots(&self) -> Arc<ConnectionSlots> {
        ConnectionSlots::new(&self.site.limits, self.site.refused_connections.clone())
    }

    /// Whether an address is that of a proxy, which stands for many.
    pub(super) fn is_proxy(&self, address: IpAddr) -> bool {
        self.site.proxies.knows(address)
    }

    /// Whether it is about to go: no call is taken any more.
    pub fn is_stopping(&self) -> bool {
        self.site.stopping.is_cancelled()
    }

    pub(crate) fn limits(&self) -> &ServerLimits {
        &self.site.limits
    }

    /// Says to those who ask that it is about to go.
    pub(crate) fn stop(&self) {
        self.site.stopping.cancel();
    }
}

impl<B> tower_service::Service<http::Request<B>> for Service
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        self.answer(request)
    }
}

impl Service {
    pub(super) fn answer<B>(&self, request: http::Request<B>) -> Answer
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
    {
        match &self.site.cors {
            None => self.answer_as_is(request),
            Some(Cors { layer, .. }) => Box::pin(layer.layer(AsIs(self.clone())).call(request)),
        }
    }

    fn answer_as_is<B>(&self, request: http::Request<B>) -> Answer
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
    {
        let (site, peer) = (self.site.view(self.peer), self.peer);
        let (mut head, body) = request.into_parts();
        if let Some(agent) = &self.agent {
            head.extensions.insert(MeantFor(agent.clone()));
        }
        let (body, is_read) = RequestBody::new(body);
        box_future(|| async move {
            let mut response = match site.guard() {
                None => site.respond(&head, body).await,
                Some(guard) => {
                    let source = site.proxies.source(peer, &head.headers);
                    site.respond_guarded(&**guard, source, &mut head, body).await
                }
            };
            // hyper closes a connection on which a body was left unread. Who is not told sends its next request there.
            if head.version < Version::HTTP_2 && !is_read.load(Ordering::Relaxed) {
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Ok(response)
        })
    }
}

/// The site without what is said to browsers alone.
struct AsIs(Service);

impl<B> tower_service::Service<http::Request<B>> for AsIs
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        self.0.answer_as_is(request)
    }
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("agents", &self.agents()).finish_non_exhaustive()
    }
}

/// Those who were there before and have tasks that nobody else knows of: they are gone, or what has their name now is of
/// another kind.
fn retire(before: &Table, now: &[Arc<Mount>]) -> HashMap<Arc<str>, Arc<Mount>> {
    let now: HashMap<_, _> = now.iter().map(|mount| (&mount.name, mount)).collect();
    let is_succeeded =
        |old: &Mount| now.get(&old.name).is_some_and(|mount| mount.served.is_like(&old.served));
    let keeps_tasks = |old: &&Arc<Mount>| !matches!(old.served, Served::Endpoint(_));
    let candidates = before.all_retired().values().chain(before.mounts()).filter(keeps_tasks);
    candidates.filter(|old| !is_succeeded(old)).map(|old| (old.name.clone(), old.clone())).collect()
}

fn is_retired(table: &Table, mount: &Arc<Mount>) -> bool {
    table.retired(&mount.name).is_some_and(|retired| Arc::ptr_eq(retired, mount))
}

/// Forgets an agent that is gone, once nobody works on its tasks or watches them and no call is on its way to it.
async fn forget(site: Weak<Site>, mount: Arc<Mount>) {
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(site) = site.upgrade() else { return };
        let _changing = site.changing.lock().await;
        let before = site.table.load_full();
        if !is_retired(&before, &mount) {
            return;
        }
        // Known to the table and to us, and to nobody else.
        if mount.served.is_idle() && mount.is_last() && Arc::strong_count(&mount) <= 2 {
            let mut retired = before.all_retired().clone();
            retired.remove(&mount.name);
            let reception = before.reception.clone();
            site.table.store(Arc::new(Table::new(reception, before.mounts().cloned(), retired)));
            return;
        }
    }
}
