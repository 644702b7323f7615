//! The site as an axum router, for people who have an axum application.

use super::service::Service;

/// Everything that the site serves, to be merged into a router of one's own, or put below a path of it with
/// `nest_service`. (`nest` would not pass on the path with a slash at its end.)
///
/// ```
/// # use chancery_sdk::{AgentSpec, BuildError, Message, Server, agent_fn};
/// # #[tokio::main]
/// # async fn main() -> Result<(), BuildError> {
/// # async fn app() -> Result<axum::Router, BuildError> {
/// let echo = AgentSpec::new("echo", agent_fn(|message: Message| async move { message.text().into_owned() }));
/// let agents = Server::builder().agent(echo).public_url("https://example.com/a2a").build()?;
/// Ok(axum::Router::new().nest_service("/a2a", axum::Router::from(agents)))
/// # }
/// # app().await.map(drop)
/// # }
/// ```
impl From<Service> for axum::Router {
    fn from(service: Service) -> Self {
        Self::new().fallback_service(service)
    }
}
