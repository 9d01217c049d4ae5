// Package kvevents tells routers which objects can be read: it publishes an event for each
// one that becomes readable and each that goes, in the form that routers know from inference
// engines. Their subscribers connect with ZeroMQ; see docs/operations/kv-events.md.
//
// A message has three frames: an empty topic, a number that is one higher than that of the
// message before, big-endian in 8 bytes, and a MessagePack array [ms since 1970, [events],
// 0]. An event is a map. A gap in the numbers means that something was lost: each event that
// a full queue pushed out takes a number, and so does a message that came too late for a
// subscriber that is slow.
//
// Whoever reports an event never waits: it goes into a bounded queue, and one goroutine
// encodes it. Nothing is said twice on request and nothing about what was there before; a
// router that missed something asks the admin port for the keys.
package kvevents
