// Package rpc is the master over the network: Server serves any store.Master, Client is a
// store.Master that asks a Server. Both speak gRPC, which is the public interface, and
// among themselves the leaner framing of package lean, with the same messages on the same
// port.
//
// The wire form is sdk/proto/mooncake/master/v1. An error crosses it with code, class and
// text, per item or for the call, so that callers cannot tell a remote master from one in
// the same process.
package rpc
