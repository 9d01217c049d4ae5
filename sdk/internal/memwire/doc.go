// Package memwire passes memory of a host to a plugin in a process of its own. It is what the wires
// share whose operations touch memory.
//
// The host keeps its regions in Regions and sends their descriptors with an Outbox, over the socket
// wire.ClientOptions.Data. The plugin takes them from an Inbox and maps them in Areas. An operation
// names a region by its handle, and a place in it.
package memwire
