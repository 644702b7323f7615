//! Calls to the fleet itself. A message goes to whoever has the skill that it is for; what is asked about a task goes to
//! whoever has the task.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use chancery_control::Mode;
use chancery_control::identity::{GATE, outside_of_call};
use chancery_control::policy::named_skill;
use chancery_control::routing::{PeerSelector as _, PowerOfTwoChoices, Standing, Ticket, Wanted};
use chancery_protocol::{
    BoxFuture, Call, CallContext, Caller, DEFAULT_PAGE_SIZE, DynEndpoint, Error, ErrorCode, ListTasksRequest,
    Reply, Request, TaskId, TaskPage, TaskView,
};
use chancery_store::{EdgeQuery, PageToken, Realms};
use futures_util::StreamExt as _;

use super::Formation;
use super::sight::Seen;
use crate::config::Trust;

/// As many skills as are named to somebody who must choose one.
const NAMED: usize = 20;
/// How many members are asked at a time.
const AT_A_TIME: usize = 32;

/// The fleet as one agent.
pub(super) struct Front {
    fleet: Formation,
}

/// Who gets a message, and for which skill.
struct Chosen {
    member: Arc<str>,
    skill: Arc<str>,
    /// By which it is seen how busy it is, if others could have got it.
    ticket: Option<Ticket>,
}

impl DynEndpoint for Front {
    fn call(&self, call: Call) -> BoxFuture<'_, Result<Reply, Error>> {
        Box::pin(self.answer(call))
    }
}

impl Front {
    pub(super) fn new(fleet: Formation) -> Self {
        Self { fleet }
    }

    async fn answer(&self, mut call: Call) -> Result<Reply, Error> {
        call.request.tenant_mut().clear();
        let Call { request, context } = &mut call;
        // A fleet of one is that one, down to what its gates refuse.
        let only = self.fleet.regime.roster.only_exposed().map(|member| member.name.clone());
        if let Some(only) = only {
            context.agent = only.clone();
            return self.endpoint(&only)?.call(call).await;
        }
        // What leads to no member passes no gate.
        let denied = outside_of_call(&context.principal, request);
        if let Some(denied) = denied.filter(|_| self.fleet.regime.terms.mode(GATE) == Mode::Enforce) {
            return Err(denied.into());
        }
        let member: Arc<str> = match request {
            Request::ListTasks(wanted) => return self.list(wanted, context).await.map(Reply::Tasks),
            Request::GetExtendedAgentCard(_) => {
                return Ok(Reply::Card(Arc::new(self.fleet.card_for(&caller(context)))));
            }
            Request::SendMessage(sent) | Request::SendStreamingMessage(sent)
                if sent.message.task_id.is_none() =>
            {
                let named = named_skill(sent).map(|skill| skill.as_str().into());
                let skill = context.skill.clone().or(named);
                let Chosen { member, skill, ticket } = self.whoever_has(skill, context)?;
                (context.skill, context.agent) = (Some(skill), member.clone());
                let reply = self.endpoint(&member)?.call(call).await;
                return self.watched(ticket, reply);
            }
            request => {
                let Some(task) = request.task() else { return Err(ErrorCode::UnsupportedOperation.into()) };
                self.whoever_has_task(task, context).await?
            }
        };
        context.agent = member.clone();
        self.endpoint(&member)?.call(call).await
    }

    fn endpoint(&self, member: &str) -> Result<Arc<dyn DynEndpoint>, Error> {
        self.fleet.regime.endpoint(member).ok_or_else(|| ErrorCode::Unavailable.into())
    }

    /// Who gets a message: those of our own before those that nobody trusts, those that are well before others, and of
    /// equals whoever has less to do.
    fn whoever_has(&self, skill: Option<Arc<str>>, context: &CallContext) -> Result<Chosen, Error> {
        let caller = caller(context);
        let seen = self.fleet.seen_by(&caller);
        let skill = match skill {
            Some(skill) => skill,
            None => only_skill(&seen)?,
        };
        let has_it = |seen: &&Seen| seen.believed.iter().any(|known| known.id == *skill);
        let rank = |seen: &Seen| {
            (seen.member.trust == Trust::Untrusted, self.fleet.health(&seen.member).is_unhealthy())
        };
        let able: Vec<_> = seen.iter().filter(has_it).map(|seen| (rank(seen), &seen.member.name)).collect();
        let Some(best) = able.iter().map(|(rank, _)| *rank).min() else {
            let text = format!("nobody here has the skill `{skill}`; the fleet's card names those there are");
            return Err(Error::invalid_field("message.metadata", text));
        };
        let equals: Vec<_> = able.iter().filter(|(rank, _)| *rank == best).map(|(_, name)| *name).collect();
        let (member, ticket) = match (&equals[..], &context.idempotency_key) {
            ([only], _) => ((*only).clone(), None),
            // What is sent again goes to whoever got it, who knows it again.
            (_, Some(key)) => (equals[place_of(key) % equals.len()].clone(), None),
            _ => self.least_busy(&equals, &skill, &caller),
        };
        Ok(Chosen { member, skill, ticket })
    }

    /// One of several who could all do it, by how much they have to do and how fast they were of late. If everybody breaks off
    /// calls, each in its turn.
    fn least_busy(&self, equals: &[&Arc<str>], skill: &str, caller: &Caller) -> (Arc<str>, Option<Ticket>) {
        let (loads, now) = (&self.fleet.loads, self.fleet.governor.plane().hands.now());
        let turn = self.fleet.turn.fetch_add(1, Ordering::Relaxed) + 1;
        let wanted = Wanted { skill: Some(skill), turn, ..Wanted::by(&caller.principal) };
        let mut candidates = loads.members(now);
        candidates
            .retain(|one| equals.contains(&&one.peer.name) && !matches!(one.standing, Standing::OutUntil(_)));
        while let Some(place) = PowerOfTwoChoices::default().select(&candidates, &wanted, now).member {
            let name = candidates.remove(place).peer.name.clone();
            if let Ok(ticket) = loads.begin(&name, now) {
                return (name, Some(ticket));
            }
        }
        let place = usize::try_from(turn).unwrap_or_default() % equals.len();
        (equals[place].clone(), None)
    }

    /// Learns from an answer how the member does that gave it. A stream counts as open until it ends.
    fn watched(&self, ticket: Option<Ticket>, reply: Result<Reply, Error>) -> Result<Reply, Error> {
        let Some(ticket) = ticket else { return reply };
        let now = self.fleet.governor.plane().hands.now();
        match reply {
            Err(error) if error.code() == ErrorCode::Unavailable => {
                ticket.transport_failure(now);
                Err(error)
            }
            Ok(Reply::Stream(events)) => {
                ticket.succeeded(now);
                let events = events.inspect(move |_| {
                    let _open = &ticket;
                });
                Ok(Reply::Stream(Box::pin(events)))
            }
            other => {
                ticket.succeeded(now);
                other
            }
        }
    }

    /// Who has a task of the caller's. Unknown and foreign ones are alike.
    async fn whoever_has_task(&self, task: &TaskId, context: &CallContext) -> Result<Arc<str>, Error> {
        let query = EdgeQuery {
            task: Some(task.clone()),
            newest_first: true,
            limit: 16,
            ..EdgeQuery::of(Realms::One(context.principal.realm.clone()))
        };
        let page = self.fleet.store.edges(&query).await.map_err(Error::internal)?;
        let is_known =
            |agent: &Arc<str>| self.fleet.regime.roster.get(agent).is_some_and(|member| member.exposed);
        let mine = page.edges.into_iter().filter(|edge| edge.caller == context.principal.id);
        mine.map(|edge| edge.agent)
            .find(is_known)
            .ok_or_else(|| Error::new(ErrorCode::TaskNotFound).about("taskId", task.as_str()))
    }

    /// The caller's tasks, whoever has them, those whose status changed last coming first. Every member lists in the same
    /// order, so one page of each has all that can be on the page of the whole.
    async fn list(&self, wanted: &ListTasksRequest, context: &CallContext) -> Result<TaskPage, Error> {
        wanted.validate()?;
        let limit = wanted.page_size.unwrap_or(DEFAULT_PAGE_SIZE);
        let seen = self.fleet.seen_by(&caller(context));
        let pages = seen.into_iter().map(|seen| {
            let mut context = Box::new(context.clone());
            context.agent = seen.member.name.clone();
            let call = Call { request: Request::ListTasks(Box::new(wanted.clone())), context };
            async move { self.endpoint(&seen.member.name)?.call(call).await }
        });
        let pages: Vec<_> = futures_util::stream::iter(pages).buffer_unordered(AT_A_TIME).collect().await;
        let (mut tasks, mut total, mut more) = (Vec::new(), 0_i32, false);
        for page in pages {
            let Reply::Tasks(page) = page? else { continue };
            total = total.saturating_add(page.total_size);
            more |= !page.next_page_token.is_empty();
            for task in page.tasks {
                tasks.push((place(&task)?, task));
            }
        }
        tasks.sort_by(|one, other| other.0.cmp(&one.0));
        let limit_now = usize::try_from(limit).unwrap_or_default();
        more |= tasks.len() > limit_now;
        tasks.truncate(limit_now);
        let last = tasks.last().filter(|_| more).map(|(place, _)| place.to_string());
        Ok(TaskPage {
            tasks: tasks.into_iter().map(|(_, task)| task).collect(),
            next_page_token: last.unwrap_or_default(),
            page_size: limit,
            total_size: total,
        })
    }
}

/// A number that is the same whenever the key is.
fn place_of(key: &str) -> usize {
    key.bytes().fold(0, |sum: usize, byte| sum.wrapping_mul(31).wrapping_add(byte.into()))
}

/// Where a task stands in the order.
fn place(task: &TaskView) -> Result<PageToken, Error> {
    let value = task.task.value()?;
    let millis = value.status.timestamp.map_or(0, |at| at.as_millis());
    Ok(PageToken { millis, id: value.id.clone() })
}

fn caller(context: &CallContext) -> Caller {
    Caller { principal: context.principal.clone(), identity: context.identity.clone() }
}

/// The skill that a message is for which does not say so: there must be one alone.
fn only_skill(seen: &[Seen]) -> Result<Arc<str>, Error> {
    let mut ids: Vec<_> =
        seen.iter().flat_map(|seen| &seen.believed).map(|skill| skill.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    match ids[..] {
        [only] => Ok(only.into()),
        [] => Err(Error::with_message(
            ErrorCode::UnsupportedOperation,
            "There is no skill here that you may use",
        )),
        _ => {
            ids.truncate(NAMED);
            let text = format!(
                "must say under urn:chancery:ext:skill:v1 which skill the message is for, such as {}",
                ids.join(", ")
            );
            Err(Error::invalid_field("message.metadata", text))
        }
    }
}
