//! Makes the code of the messages from the compiled .proto files that the sdk publishes, without protoc, and compiles the rings
//! of transports, which are in C.

use prost::Message;
use prost_types::{
    DescriptorProto, FileDescriptorProto, FileDescriptorSet, MethodDescriptorProto, ServiceDescriptorProto,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto/plugins.binpb");
    let mut files = FileDescriptorSet::decode(&*std::fs::read("proto/plugins.binpb")?)?;
    files.file.push(controller());
    println!("cargo::rerun-if-changed=c");
    cc::Build::new().file("c/ring.c").std("c11").warnings(true).compile("mooncake_ring");
    tonic_prost_build::configure().build_client(false).compile_fds(files)?;
    Ok(())
}

/// The service by which the host ends the process; both messages are empty.
fn controller() -> FileDescriptorProto {
    let method = MethodDescriptorProto {
        name: Some("Shutdown".into()),
        input_type: Some(".plugin.Empty".into()),
        output_type: Some(".plugin.Empty".into()),
        ..Default::default()
    };
    FileDescriptorProto {
        name: Some("plugin.proto".into()),
        package: Some("plugin".into()),
        syntax: Some("proto3".into()),
        message_type: vec![DescriptorProto { name: Some("Empty".into()), ..Default::default() }],
        service: vec![ServiceDescriptorProto {
            name: Some("GRPCController".into()),
            method: vec![method],
            ..Default::default()
        }],
        ..Default::default()
    }
}
