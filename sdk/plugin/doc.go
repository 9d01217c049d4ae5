// Package plugin is the part of the contract that every kind of Mooncake plugin shares:
// identity, manifest, configuration, lifecycle and health.
//
// A plugin is a Factory, made with the Define function of its kind (evict.Define,
// alloc.Define, transport.Define). The host uses it in this order, and a plugin may rely
// on it:
//
//	Manifest       no side effects; also readable from the binary without running it
//	DefaultConfig  a fresh value; the host decodes the user's settings strictly over it
//	Config.Validate
//	New            memory only: no file, socket, device, goroutine or child process
//	Start          acquire what is needed; bounded by its context
//	...            the methods of the kind
//	Stop           drain, then free; safe at any time, also before Start and twice
//
// Because New acquires nothing, a host can build everything to check a configuration
// without touching a device.
//
// The package imports the standard library only.
package plugin
