//! A look at, and a hand on, every request and answer of a client.

use chancery_protocol::Operation;
use http::{request, response};

/// Sees the head of every request before it goes out, and of every answer when it comes in. For headers of
/// one's own, signatures, traces and logs. Implemented by users.
///
/// ```
/// use chancery_sdk::{Interceptor, protocol::Operation};
/// use http::{HeaderValue, request::Parts};
///
/// struct Team;
///
/// impl Interceptor for Team {
///     fn before(
///         &self,
///         _: Option<Operation>,
///         head: &mut Parts,
///     ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
///         head.headers.insert("x-team", HeaderValue::from_static("blue"));
///         Ok(())
///     }
/// }
/// ```
pub trait Interceptor: Send + Sync + 'static {
    /// May change the headers, or stop the call. `None` is the look-up of the card. Each try of a call passes by. The URL may
    /// be read but not led elsewhere; credentials that are put here go where the URL says, so look at it.
    fn before(
        &self,
        operation: Option<Operation>,
        head: &mut request::Parts,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let _ = (operation, head);
        Ok(())
    }

    /// Sees the head of an answer, whatever it says.
    fn after(&self, operation: Option<Operation>, head: &response::Parts) {
        let _ = (operation, head);
    }
}
