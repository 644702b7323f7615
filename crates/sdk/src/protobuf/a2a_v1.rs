//! The messages of A2A v1.0, package `lf.a2a.v1`: names and numbers, as `proto/lf/a2a/v1/a2a.proto` has them. A test
//! holds the two together.

use chancery_protocol::Operation;

use super::Kind::{Bool, Bytes, Enum, Int32, Map, Object, Text, Timestamp, Value};
use super::Presence::{Explicit, Implicit, OneOf, Repeated, Required, RequiredList};
use super::{Kind, Message, field};

/// Request and answer of an operation.
pub(crate) fn messages(operation: Operation) -> (&'static Message, &'static Message) {
    match operation {
        Operation::SendMessage => (&SEND_MESSAGE_REQUEST, &SEND_MESSAGE_RESPONSE),
        Operation::SendStreamingMessage => (&SEND_MESSAGE_REQUEST, &STREAM_RESPONSE),
        Operation::GetTask => (&GET_TASK_REQUEST, &TASK),
        Operation::ListTasks => (&LIST_TASKS_REQUEST, &LIST_TASKS_RESPONSE),
        Operation::CancelTask => (&CANCEL_TASK_REQUEST, &TASK),
        Operation::SubscribeToTask => (&SUBSCRIBE_TO_TASK_REQUEST, &STREAM_RESPONSE),
        Operation::CreateTaskPushNotificationConfig => (&PUSH_CONFIG, &PUSH_CONFIG),
        Operation::GetTaskPushNotificationConfig => (&GET_PUSH_CONFIG_REQUEST, &PUSH_CONFIG),
        Operation::ListTaskPushNotificationConfigs => {
            (&LIST_PUSH_CONFIGS_REQUEST, &LIST_PUSH_CONFIGS_RESPONSE)
        }
        Operation::DeleteTaskPushNotificationConfig => (&DELETE_PUSH_CONFIG_REQUEST, &super::rpc::EMPTY),
        Operation::GetExtendedAgentCard => (&GET_EXTENDED_CARD_REQUEST, &AGENT_CARD),
    }
}

pub(crate) static TASK_STATES: [&str; 9] = [
    "TASK_STATE_UNSPECIFIED",
    "TASK_STATE_SUBMITTED",
    "TASK_STATE_WORKING",
    "TASK_STATE_COMPLETED",
    "TASK_STATE_FAILED",
    "TASK_STATE_CANCELED",
    "TASK_STATE_INPUT_REQUIRED",
    "TASK_STATE_REJECTED",
    "TASK_STATE_AUTH_REQUIRED",
];

pub(crate) static ROLES: [&str; 3] = ["ROLE_UNSPECIFIED", "ROLE_USER", "ROLE_AGENT"];

macro_rules! messages {
    ($($constant:ident = $name:literal { $($number:literal $field:literal $presence:ident $kind:expr;)* })*) => {
        $(pub(crate) static $constant: Message = Message {
            name: concat!("lf.a2a.v1.", $name),
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
        5 "parts" RequiredList Kind::Message(&PART);
        6 "metadata" Implicit Object;
        7 "extensions" Repeated Text;
        8 "referenceTaskIds" Repeated Text;
    }
    PART = "Part" {
        1 "text" OneOf Text;
        2 "raw" OneOf Bytes;
        3 "url" OneOf Text;
        4 "data" OneOf Value;
        5 "metadata" Implicit Object;
        6 "filename" Implicit Text;
        7 "mediaType" Implicit Text;
    }
    ARTIFACT = "Artifact" {
        1 "artifactId" Required Text;
        2 "name" Implicit Text;
        3 "description" Implicit Text;
        4 "parts" RequiredList Kind::Message(&PART);
        5 "metadata" Implicit Object;
        6 "extensions" Repeated Text;
    }
    TASK_STATUS_UPDATE_EVENT = "TaskStatusUpdateEvent" {
        1 "taskId" Required Text;
        2 "contextId" Required Text;
        3 "status" Required Kind::Message(&TASK_STATUS);
        4 "metadata" Implicit Object;
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
        1 "tenant" Implicit Text;
        2 "message" Required Kind::Message(&MESSAGE);
        3 "configuration" Implicit Kind::Message(&SEND_MESSAGE_CONFIGURATION);
        4 "metadata" Implicit Object;
    }
    SEND_MESSAGE_CONFIGURATION = "SendMessageConfiguration" {
        1 "acceptedOutputModes" Repeated Text;
        2 "taskPushNotificationConfig" Implicit Kind::Message(&PUSH_CONFIG);
        3 "historyLength" Explicit Int32;
        4 "returnImmediately" Implicit Bool;
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
        1 "tenant" Implicit Text;
        2 "id" Required Text;
        3 "historyLength" Explicit Int32;
    }
    LIST_TASKS_REQUEST = "ListTasksRequest" {
        1 "tenant" Implicit Text;
        2 "contextId" Implicit Text;
        3 "status" Implicit Enum(&TASK_STATES);
        4 "pageSize" Explicit Int32;
        5 "pageToken" Implicit Text;
        6 "historyLength" Explicit Int32;
        7 "statusTimestampAfter" Implicit Timestamp;
        8 "includeArtifacts" Explicit Bool;
    }
    LIST_TASKS_RESPONSE = "ListTasksResponse" {
        1 "tasks" RequiredList Kind::Message(&TASK);
        2 "nextPageToken" Required Text;
        3 "pageSize" Required Int32;
        4 "totalSize" Required Int32;
    }
    CANCEL_TASK_REQUEST = "CancelTaskRequest" {
        1 "tenant" Implicit Text;
        2 "id" Required Text;
        3 "metadata" Implicit Object;
    }
    SUBSCRIBE_TO_TASK_REQUEST = "SubscribeToTaskRequest" {
        1 "tenant" Implicit Text;
        2 "id" Required Text;
    }
    PUSH_CONFIG = "TaskPushNotificationConfig" {
        1 "tenant" Implicit Text;
        2 "id" Implicit Text;
        3 "taskId" Implicit Text;
        4 "url" Required Text;
        5 "token" Implicit Text;
        6 "authentication" Implicit Kind::Message(&AUTHENTICATION_INFO);
    }
    AUTHENTICATION_INFO = "AuthenticationInfo" {
        1 "scheme" Required Text;
        2 "credentials" Implicit Text;
    }
    GET_PUSH_CONFIG_REQUEST = "GetTaskPushNotificationConfigRequest" {
        1 "tenant" Implicit Text;
        2 "taskId" Required Text;
        3 "id" Required Text;
    }
    DELETE_PUSH_CONFIG_REQUEST = "DeleteTaskPushNotificationConfigRequest" {
        1 "tenant" Implicit Text;
        2 "taskId" Required Text;
        3 "id" Required Text;
    }
    LIST_PUSH_CONFIGS_REQUEST = "ListTaskPushNotificationConfigsRequest" {
        1 "taskId" Required Text;
        2 "pageSize" Implicit Int32;
        3 "pageToken" Implicit Text;
        4 "tenant" Implicit Text;
    }
    LIST_PUSH_CONFIGS_RESPONSE = "ListTaskPushNotificationConfigsResponse" {
        1 "configs" Repeated Kind::Message(&PUSH_CONFIG);
        2 "nextPageToken" Implicit Text;
    }
    GET_EXTENDED_CARD_REQUEST = "GetExtendedAgentCardRequest" {
        1 "tenant" Implicit Text;
    }
    AGENT_CARD = "AgentCard" {
        1 "name" Required Text;
        2 "description" Required Text;
        3 "supportedInterfaces" RequiredList Kind::Message(&AGENT_INTERFACE);
        4 "provider" Implicit Kind::Message(&AGENT_PROVIDER);
        5 "version" Required Text;
        6 "documentationUrl" Explicit Text;
        7 "capabilities" Required Kind::Message(&AGENT_CAPABILITIES);
        8 "securitySchemes" Implicit Map(&Kind::Message(&SECURITY_SCHEME));
        9 "securityRequirements" Repeated Kind::Message(&SECURITY_REQUIREMENT);
        10 "defaultInputModes" RequiredList Text;
        11 "defaultOutputModes" RequiredList Text;
        12 "skills" RequiredList Kind::Message(&AGENT_SKILL);
        13 "signatures" Repeated Kind::Message(&AGENT_CARD_SIGNATURE);
        14 "iconUrl" Explicit Text;
    }
    AGENT_INTERFACE = "AgentInterface" {
        1 "url" Required Text;
        2 "protocolBinding" Required Text;
        3 "tenant" Implicit Text;
        4 "protocolVersion" Required Text;
    }
    AGENT_PROVIDER = "AgentProvider" {
        1 "url" Required Text;
        2 "organization" Required Text;
    }
    AGENT_CAPABILITIES = "AgentCapabilities" {
        1 "streaming" Explicit Bool;
        2 "pushNotifications" Explicit Bool;
        3 "extensions" Repeated Kind::Message(&AGENT_EXTENSION);
        4 "extendedAgentCard" Explicit Bool;
    }
    AGENT_EXTENSION = "AgentExtension" {
        1 "uri" Implicit Text;
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
        8 "securityRequirements" Repeated Kind::Message(&SECURITY_REQUIREMENT);
    }
    AGENT_CARD_SIGNATURE = "AgentCardSignature" {
        1 "protected" Required Text;
        2 "signature" Required Text;
        3 "header" Implicit Object;
    }
    SECURITY_REQUIREMENT = "SecurityRequirement" {
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
        5 "deviceCode" OneOf Kind::Message(&DEVICE_CODE_OAUTH_FLOW);
    }
    AUTHORIZATION_CODE_OAUTH_FLOW = "AuthorizationCodeOAuthFlow" {
        1 "authorizationUrl" Required Text;
        2 "tokenUrl" Required Text;
        3 "refreshUrl" Implicit Text;
        4 "scopes" Required Map(&Text);
        5 "pkceRequired" Implicit Bool;
    }
    CLIENT_CREDENTIALS_OAUTH_FLOW = "ClientCredentialsOAuthFlow" {
        1 "tokenUrl" Required Text;
        2 "refreshUrl" Implicit Text;
        3 "scopes" Required Map(&Text);
    }
    IMPLICIT_OAUTH_FLOW = "ImplicitOAuthFlow" {
        1 "authorizationUrl" Implicit Text;
        2 "refreshUrl" Implicit Text;
        3 "scopes" Implicit Map(&Text);
    }
    PASSWORD_OAUTH_FLOW = "PasswordOAuthFlow" {
        1 "tokenUrl" Implicit Text;
        2 "refreshUrl" Implicit Text;
        3 "scopes" Implicit Map(&Text);
    }
    DEVICE_CODE_OAUTH_FLOW = "DeviceCodeOAuthFlow" {
        1 "deviceAuthorizationUrl" Required Text;
        2 "tokenUrl" Required Text;
        3 "refreshUrl" Implicit Text;
        4 "scopes" Required Map(&Text);
    }
}
