//! The open tasks of a member, as far as the caller may see them: its own.

use chancery_protocol::{Call, CallContext, Error, ErrorCode, ListTasksRequest, Reply, Request, TaskState};
use chancery_sdk::{Body, Refused, Visitor};
use http::Response;
use serde_json::value::RawValue;

use super::{Formation, Member, private_json};

/// The states of a task that has not ended.
const OPEN: [TaskState; 4] =
    [TaskState::Working, TaskState::Submitted, TaskState::InputRequired, TaskState::AuthRequired];

/// As many tasks in one state as are shown.
const MOST: i32 = 100;

impl Formation {
    pub(super) async fn show_active(
        &self,
        visitor: &Visitor,
        member: &Member,
    ) -> Result<Response<Body>, Refused> {
        let caller = visitor.caller()?;
        let endpoint = self.regime.endpoint(&member.name);
        let endpoint = endpoint.ok_or_else(|| Error::new(ErrorCode::Unavailable))?;
        let (mut tasks, mut total) = (Vec::new(), 0);
        for state in OPEN {
            let mut context = CallContext::new(caller.principal.clone(), member.name.clone());
            context.identity = caller.identity.clone();
            let request = ListTasksRequest { status: state, page_size: Some(MOST), ..Default::default() };
            let call = Call { request: Request::ListTasks(Box::new(request)), context };
            let Reply::Tasks(page) = endpoint.call(call).await? else { continue };
            total += page.total_size;
            for task in &page.tasks {
                let mut json = Vec::new();
                task.write_json(&mut json)?;
                let text = String::from_utf8(json).map_err(Error::internal)?;
                tasks.push(RawValue::from_string(text).map_err(Error::internal)?);
            }
        }
        #[derive(serde::Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Active {
            tasks: Vec<Box<RawValue>>,
            total_size: i32,
        }
        private_json(&Active { tasks, total_size: total })
    }
}
