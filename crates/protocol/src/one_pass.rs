//! Reading a JSON-RPC call in one pass.
//!
//! The envelope names the operation, and the operation says what its parameters are. Nearly every client writes
//! `method` before `params`, so the parameters can be read as what they are while the envelope is. Whatever
//! does not fit, for whatever reason, is read again in two steps, which also explain what is wrong.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, de};
use serde_json::value::RawValue;

use crate::call::Request;
use crate::field::Object;
use crate::jsonrpc::RequestId;
use crate::operation::Operation;

/// The calls that are worth it, in one pass; none if it does not work out.
pub(crate) fn read(body: &[u8]) -> Option<(RequestId<'_>, Request)> {
    let text = std::str::from_utf8(body).ok()?;
    let call: OnePass<'_> = serde_json::from_str(text).ok()?;
    Some((call.id, call.request))
}

struct OnePass<'a> {
    id: RequestId<'a>,
    request: Request,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum Key {
    Jsonrpc,
    Id,
    Method,
    Params,
    #[serde(other)]
    Unknown,
}

struct OnePassVisitor;

/// Reads the parameters of an operation.
struct ParamsOf(Operation);

impl<'de> Deserialize<'de> for OnePass<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OnePassVisitor)
    }
}

impl<'de> Visitor<'de> for OnePassVisitor {
    type Value = OnePass<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a request")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<OnePass<'de>, M::Error> {
        let (mut version, mut id, mut operation, mut request) = (false, None, None, None);
        while let Some(key) = map.next_key::<Key>()? {
            match key {
                Key::Jsonrpc if !version => version = map.next_value::<&'de str>()? == "2.0",
                Key::Id if id.is_none() => id = RequestId::read(map.next_value::<&RawValue>()?),
                Key::Method if operation.is_none() => {
                    operation = Operation::from_method(map.next_value::<&'de str>()?);
                }
                Key::Params if request.is_none() => {
                    let operation = operation.ok_or_else(unfit::<M::Error>)?;
                    request = Some(map.next_value_seed(ParamsOf(operation))?);
                }
                Key::Unknown => {
                    map.next_value::<IgnoredAny>()?;
                }
                Key::Jsonrpc | Key::Id | Key::Method | Key::Params => return Err(unfit()),
            }
        }
        match (version, id, request) {
            (true, Some(id), Some(request)) => Ok(OnePass { id, request }),
            _ => Err(unfit()),
        }
    }
}

impl<'de> DeserializeSeed<'de> for ParamsOf {
    type Value = Request;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Request, D::Error> {
        match self.0 {
            Operation::SendMessage => {
                Object::deserialize(deserializer).map(|Object(p)| Request::SendMessage(p))
            }
            Operation::SendStreamingMessage => {
                Object::deserialize(deserializer).map(|Object(p)| Request::SendStreamingMessage(p))
            }
            Operation::GetTask => Object::deserialize(deserializer).map(|Object(p)| Request::GetTask(p)),
            _ => Err(D::Error::custom("not worth it")),
        }
    }
}

/// Seen by nobody: the call is read again.
fn unfit<E: de::Error>() -> E {
    E::custom("does not fit")
}
