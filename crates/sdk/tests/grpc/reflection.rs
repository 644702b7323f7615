//! `grpc.reflection`, as tools ask for it: the descriptors that come back are those of the `.proto` files.

use prost_reflect::DescriptorPool;
use prost_reflect::prost::Message as _;
use prost_reflect::prost_types::{FileDescriptorProto, FileDescriptorSet};

use crate::caller::{Caller, POOL, framed};
use crate::support::*;

const V1: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
const V1_ALPHA: &str = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

/// A field of text or of a message.
fn field(number: u8, value: &[u8]) -> Vec<u8> {
    let length = u8::try_from(value.len()).expect("a short value");
    [&[number << 3 | 2, length][..], value].concat()
}

/// What a message has in a field.
fn within(message: &[u8], wanted: u32) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut rest = message;
    while !rest.is_empty() {
        let tag = prost_reflect::prost::encoding::decode_varint(&mut rest).expect("a tag");
        let value = prost_reflect::prost::encoding::decode_varint(&mut rest).expect("a length");
        if tag & 7 != 2 {
            continue;
        }
        let (value, after) = rest.split_at(usize::try_from(value).expect("a length"));
        rest = after;
        if tag >> 3 == u64::from(wanted) {
            found.push(value.to_vec());
        }
    }
    found
}

async fn ask(site: &Site, path: &str, questions: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let body = questions.iter().flat_map(|question| framed(question)).collect();
    let any = POOL.get_message_by_name("google.protobuf.Empty").expect("a message");
    let mut answers = Caller::new(site).open(path, body, any).await;
    let mut found = Vec::new();
    while let Some(bytes) = answers.next_bytes().await {
        found.push(bytes.to_vec());
    }
    found
}

#[tokio::test]
async fn what_is_served_is_told() {
    let site = serve_with(|server| server.agent(echo()).grpc_reflection()).await;
    let questions = [
        field(7, b""),
        field(4, b"lf.a2a.v1.A2AService.GetTask"),
        field(3, b"google/protobuf/struct.proto"),
        field(4, b"lf.a2a.v1.Nothing"),
    ];
    for path in [V1, V1_ALPHA] {
        let answers = ask(&site, path, &questions).await;
        assert_eq!(answers.len(), 4);
        let list = &within(&answers[0], 6)[0];
        assert_eq!(within(list, 1), [field(1, b"lf.a2a.v1.A2AService"), field(1, b"a2a.v1.A2AService")]);
        assert_eq!(within(&answers[1], 2), [questions[1].clone()]);
        let files = within(&within(&answers[1], 4)[0], 1);
        let file = files.iter().map(|file| FileDescriptorProto::decode(&file[..]).expect("a descriptor"));
        let told = DescriptorPool::from_file_descriptor_set(FileDescriptorSet { file: file.collect() });
        let told = told.expect("the descriptors are complete");
        let service = told.get_service_by_name("lf.a2a.v1.A2AService").expect("the service");
        assert_eq!(service.methods().len(), 11);
        let file =
            FileDescriptorProto::decode(&within(&within(&answers[2], 4)[0], 1)[0][..]).expect("a file");
        assert_eq!(file.name(), "google/protobuf/struct.proto");
        assert_eq!(within(&answers[3], 7).len(), 1);
    }
}

#[tokio::test]
async fn it_is_off_unless_switched_on() {
    let site = serve(echo()).await;
    assert_eq!(Caller::new(&site).post_to(V1, framed(&field(7, b""))).await.code(), 12);
}
