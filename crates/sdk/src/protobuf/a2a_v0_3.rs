//! The messages of A2A v0.3, package `a2a.v1`: names and numbers, as `proto/a2a/v1/a2a.proto` has them. A test holds the
//! two together.

use chancery_protocol::Operation;

use super::Kind::{Bool, Bytes, Enum, Int32, Map, Object, Text, Timestamp};
use super::Presence::{Implicit, OneOf, Repeated, Required, RequiredList};
use super::a2a_v1::ROLES;
use super::{Kind, Message, field};

/// Request and answer of an operation; none if the version has no such thing.
pub(crate) fn messages(operation: Operation) -> Option<(&'static Message, &'static Message)> {
    Some(match operation {
        Operation::SendMessage => (&SEND_MESSAGE_REQUEST, &SEND_MESSAGE_RESPONSE),
        Operation::SendStreamingMessage => (&SEND_MESSAGE_REQUEST, &STREAM_RESPONSE),
        Operation::GetTask => (&GET_TASK_REQUEST, &TASK),
        Operation::ListTasks => return None,
        Operation::CancelTask => (&CANCEL_TASK_REQUEST, &TASK),
        Operation::SubscribeToTask => (&TASK_SUBSCRIPTION_REQUEST, &STREAM_RESPONSE),
        Operation::CreateTaskPushNotificationConfig => (&CREATE_PUSH_CONFIG_REQUEST, &PUSH_CONFIG),
        Operation::GetTaskPushNotificationConfig => (&GET_PUSH_CONFIG_REQUEST, &PUSH_CONFIG),
        Operation::ListTaskPushNotificationConfigs => {
            (&LIST_PUSH_CONFIGS_REQUEST, &LIST_PUSH_CONFIGS_RESPONSE)
        }
        Operation::DeleteTaskPushNotificationConfig => (&DELETE_PUSH_CONFIG_REQUEST, &super::rpc::EMPTY),
        Operation::GetExtendedAgentCard => (&GET_CARD_REQUEST, &AGENT_CARD),
    })
}

/// As in v1.0, but for one name.
pub(crate) static TASK_STATES: [&str; 9] = [
    "TASK_STATE_UNSPECIFIED",
    "TASK_STATE_SUBMITTED",
    "TASK_STATE_WORKING",
    "TASK_STATE_COMPLETED",
    "TASK_STATE_FAILED",
    "TASK_STATE_CANCELLED",
    "TASK_STATE_INPUT_REQUIRED",
    "TASK_STATE_REJECTED",
    "TASK_STATE_AUTH_REQUIRED",
];

macro_rules! messages {
    ($($constant:ident = $name:literal { $($number:literal $field:literal $presence:ident $kind:expr;)* })*) => {
        $(pub(crate) static $constant: Message = Message {
            name: concat!("a2a.v1.", $name),
            fields: &[$(field($number, $field, $presence, $kind)),*],
        };)*

        /// All of them, for those who check the tables.
        #[cfg(any(test, feature = "fuzzing"))]
        pub(crate) static ALL: &[&Message] = &[$(&$constant),*];
    };
}

messages! {
    TASK = "Task" {
        1 "id" Required Text;
        2 "contextId" Implicit Text;
        3 "status" Required Kind::Message(&TASK_STATUS);
        4 "artifacts" Repeated Kind::Message(&ARTIFACT);
        5 "history" Repeated Kind::Message(&MESSAGE);
        6 "metadata" Implicit Object;
    }
    TASK_STATUS = "TaskStatus" {
        1 "state" Required Enum(&TASK_STATES);
        2 "message" Implicit Kind::Message(&MESSAGE);
        3 "timestamp" Implicit Timestamp;
    }
    MESSAGE = "Message" {
        1 "messageId" Required Text;
        2 "contextId" Implicit Text;
        3 "taskId" Implicit Text;
        4 "role" Required Enum(&ROLES);
        5 "content" RequiredList Kind::Message(&PART);
        6 "metadata" Implicit Object;
        7 "extensions" Repeated Text;
    }
    PART = "Part" {
        1 "text" OneOf Text;
        2 "file" OneOf Kind::Message(&FILE_PART);
        3 "data" OneOf Kind::Message(&DATA_PART);
        4 "metadata" Implicit Object;
    }
    FILE_PART = "FilePart" {
        1 "fileWithUri" OneOf Text;
        2 "fileWithBytes" OneOf Bytes;
        3 "mimeType" Implicit Text;
        4 "name" Implicit Text;
    }
    DATA_PART = "DataPart" {
        1 "data" Implicit Object;
    }
    ARTIFACT = "Artifact" {
        1 "artifactId" Required Text;
        3 "name" Implicit Text;
        4 "description" Implicit Text;
        5 "parts" RequiredList Kind::Message(&PART);
        6 "metadata" Implicit Object;
        7 "extensions" Repeated Text;
    }
    TASK_STATUS_UPDATE_EVENT = "TaskStatusUpdateEvent" {
        1 "taskId" Required Text;
        2 "contextId" Required Text;
        3 "status" Required Kind::Message(&TASK_STATUS);
        4 "final" Required Bool;
        5 "metadata" Implicit Object;
    }
    TASK_ARTIFACT_UPDATE_EVENT = "TaskArtifactUpdateEvent" {
        1 "taskId" Required Text;
        2 "contextId" Required Text;
        3 "artifact" Required Kind::Message(&ARTIFACT);
        4 "append" Implicit Bool;
        5 "lastChunk" Implicit Bool;
        6 "metadata" Implicit Object;
    }
    SEND_MESSAGE_REQUEST = "SendMessageRequest" {
        1 "message" Required Kind::Message(&MESSAGE);
        2 "configuration" Implicit Kind::Message(&SEND_MESSAGE_CONFIGURATION);
        3 "metadata" Implicit Object;
    }
    SEND_MESSAGE_CONFIGURATION = "SendMessageConfiguration" {
        1 "acceptedOutputModes" Repeated Text;
        2 "pushNotification" Implicit Kind::Message(&PUSH_NOTIFICATION_CONFIG);
        3 "historyLength" Implicit Int32;
        4 "blocking" Implicit Bool;
    }
    SEND_MESSAGE_RESPONSE = "SendMessageResponse" {
        1 "task" OneOf Kind::Message(&TASK);
        2 "message" OneOf Kind::Message(&MESSAGE);
    }
    STREAM_RESPONSE = "StreamResponse" {
        1 "task" OneOf Kind::Message(&TASK);
        2 "message" OneOf Kind::Message(&MESSAGE);
        3 "statusUpdate" OneOf Kind::Message(&TASK_STATUS_UPDATE_EVENT);
        4 "artifactUpdate" OneOf Kind::Message(&TASK_ARTIFACT_UPDATE_EVENT);
    }
    GET_TASK_REQUEST = "GetTaskRequest" {
        1 "name" Required Text;
        2 "historyLength" Implicit Int32;
    }
    CANCEL_TASK_REQUEST = "CancelTaskRequest" {
        1 "name" Required Text;
    }
    TASK_SUBSCRIPTION_REQUEST = "TaskSubscriptionRequest" {
        1 "name" Required Text;
    }
    PUSH_NOTIFICATION_CONFIG = "PushNotificationConfig" {
        1 "id" Implicit Text;
        2 "url" Required Text;
        3 "token" Implicit Text;
        4 "authentication" Implicit Kind::Message(&AUTHENTICATION_INFO);
    }
    AUTHENTICATION_INFO = "AuthenticationInfo" {
        1 "schemes" RequiredList Text;
        2 "credentials" Implicit Text;
    }
    PUSH_CONFIG = "TaskPushNotificationConfig" {
        1 "name" Required Text;
        2 "pushNotificationConfig" Required Kind::Message(&PUSH_NOTIFICATION_CONFIG);
    }
    CREATE_PUSH_CONFIG_REQUEST = "CreateTaskPushNotificationConfigRequest" {
        1 "parent" Required Text;
        2 "configId" Implicit Text;
        3 "config" Required Kind::Message(&PUSH_CONFIG);
    }
    GET_PUSH_CONFIG_REQUEST = "GetTaskPushNotificationConfigRequest" {
        1 "name" Required Text;
    }
    DELETE_PUSH_CONFIG_REQUEST = "DeleteTaskPushNotificationConfigRequest" {
        1 "name" Required Text;
    }
    LIST_PUSH_CONFIGS_REQUEST = "ListTaskPushNotificationConfigRequest" {
        1 "parent" Required Text;
        2 "pageSize" Implicit Int32;
        3 "pageToken" Implicit Text;
    }
    LIST_PUSH_CONFIGS_RESPONSE = "ListTaskPushNotificationConfigResponse" {
        1 "configs" RequiredList Kind::Message(&PUSH_CONFIG);
        2 "nextPageToken" Implicit Text;
    }
    GET_CARD_REQUEST = "GetAgentCardRequest" {}
    AGENT_CARD = "AgentCard" {
        1 "name" Required Text;
        2 "description" Required Text;
        3 "url" Required Text;
        4 "provider" Implicit Kind::Message(&AGENT_PROVIDER);
        5 "version" Required Text;
        6 "documentationUrl" Implicit Text;
        7 "capabilities" Required Kind::Message(&AGENT_CAPABILITIES);
        8 "securitySchemes" Implicit Map(&Kind::Message(&SECURITY_SCHEME));
        9 "security" Repeated Kind::Message(&SECURITY);
        10 "defaultInputModes" RequiredList Text;
        11 "defaultOutputModes" RequiredList Text;
        12 "skills" RequiredList Kind::Message(&AGENT_SKILL);
        13 "supportsAuthenticatedExtendedCard" Implicit Bool;
        14 "preferredTransport" Implicit Text;
        15 "additionalInterfaces" Repeated Kind::Message(&AGENT_INTERFACE);
        16 "protocolVersion" Implicit Text;
        17 "signatures" Repeated Kind::Message(&AGENT_CARD_SIGNATURE);
        18 "iconUrl" Implicit Text;
    }
    AGENT_INTERFACE = "AgentInterface" {
        1 "url" Required Text;
        2 "transport" Required Text;
    }
    AGENT_PROVIDER = "AgentProvider" {
        1 "url" Required Text;
        2 "organization" Required Text;
    }
    AGENT_CAPABILITIES = "AgentCapabilities" {
        1 "streaming" Implicit Bool;
        2 "pushNotifications" Implicit Bool;
        3 "extensions" Repeated Kind::Message(&AGENT_EXTENSION);
    }
    AGENT_EXTENSION = "AgentExtension" {
        1 "uri" Required Text;
        2 "description" Implicit Text;
        3 "required" Implicit Bool;
        4 "params" Implicit Object;
    }
    AGENT_SKILL = "AgentSkill" {
        1 "id" Required Text;
        2 "name" Required Text;
        3 "description" Required Text;
        4 "tags" RequiredList Text;
        5 "examples" Repeated Text;
        6 "inputModes" Repeated Text;
        7 "outputModes" Repeated Text;
        8 "security" Repeated Kind::Message(&SECURITY);
    }
    AGENT_CARD_SIGNATURE = "AgentCardSignature" {
        1 "protected" Required Text;
        2 "signature" Required Text;
        3 "header" Implicit Object;
    }
    SECURITY = "Security" {
        1 "schemes" Implicit Map(&Kind::Message(&STRING_LIST));
    }
    STRING_LIST = "StringList" {
        1 "list" Repeated Text;
    }
    SECURITY_SCHEME = "SecurityScheme" {
        1 "apiKeySecurityScheme" OneOf Kind::Message(&API_KEY_SECURITY_SCHEME);
        2 "httpAuthSecurityScheme" OneOf Kind::Message(&HTTP_AUTH_SECURITY_SCHEME);
        3 "oauth2SecurityScheme" OneOf Kind::Message(&OAUTH2_SECURITY_SCHEME);
        4 "openIdConnectSecurityScheme" OneOf Kind::Message(&OPEN_ID_CONNECT_SECURITY_SCHEME);
        5 "mtlsSecurityScheme" OneOf Kind::Message(&MUTUAL_TLS_SECURITY_SCHEME);
    }
    API_KEY_SECURITY_SCHEME = "APIKeySecurityScheme" {
        1 "description" Implicit Text;
        2 "location" Required Text;
        3 "name" Required Text;
    }
    HTTP_AUTH_SECURITY_SCHEME = "HTTPAuthSecurityScheme" {
        1 "description" Implicit Text;
        2 "scheme" Required Text;
        3 "bearerFormat" Implicit Text;
    }
    OAUTH2_SECURITY_SCHEME = "OAuth2SecurityScheme" {
        1 "description" Implicit Text;
        2 "flows" Required Kind::Message(&OAUTH_FLOWS);
        3 "oauth2MetadataUrl" Implicit Text;
    }
    OPEN_ID_CONNECT_SECURITY_SCHEME = "OpenIdConnectSecurityScheme" {
        1 "description" Implicit Text;
        2 "openIdConnectUrl" Required Text;
    }
    MUTUAL_TLS_SECURITY_SCHEME = "MutualTlsSecurityScheme" {
        1 "description" Implicit Text;
    }
    OAUTH_FLOWS = "OAuthFlows" {
        1 "authorizationCode" OneOf Kind::Message(&AUTHORIZATION_CODE_OAUTH_FLOW);
        2 "clientCredentials" OneOf Kind::Message(&CLIENT_CREDENTIALS_OAUTH_FLOW);
        3 "implicit" OneOf Kind::Message(&IMPLICIT_OAUTH_FLOW);
        4 "password" OneOf Kind::Message(&PASSWORD_OAUTH_FLOW);
    }
    AUTHORIZATION_CODE_OAUTH_FLOW = "AuthorizationCodeOAuthFlow" {
        1 "authorizationUrl" Required Text;
        2 "tokenUrl" Required Text;
        3 "refreshUrl" Implicit Text;
        4 "scopes" Required Map(&Text);
    }
    CLIENT_CREDENTIALS_OAUTH_FLOW = "ClientCredentialsOAuthFlow" {
        1 "tokenUrl" Required Text;
        2 "refreshUrl" Implicit Text;
        3 "scopes" Required Map(&Text);
    }
    IMPLICIT_OAUTH_FLOW = "ImplicitOAuthFlow" {
        1 "authorizationUrl" Required Text;
        2 "refreshUrl" Implicit Text;
        3 "scopes" Required Map(&Text);
    }
    PASSWORD_OAUTH_FLOW = "PasswordOAuthFlow" {
        1 "tokenUrl" Required Text;
        2 "refreshUrl" Implicit Text;
        3 "scopes" Required Map(&Text);
    }
}
